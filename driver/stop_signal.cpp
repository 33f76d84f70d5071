#include "driver/stop_signal.h"

#include <csignal>

#include <atomic>

namespace prorata {
namespace {

std::atomic<int> signal_caught{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void note(int number) { signal_caught.store(number, std::memory_order_relaxed); }

constexpr int kSignals[] = {SIGINT, SIGTERM};

}  // namespace

StopSignal::StopSignal() {
  signal_caught = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (int s : kSignals) sigaction(s, &action, nullptr);
}

StopSignal::~StopSignal() {
  for (int s : kSignals) std::signal(s, SIG_DFL);
}

int StopSignal::caught() { return signal_caught.load(std::memory_order_relaxed); }

}  // namespace prorata
