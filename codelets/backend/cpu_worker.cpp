#include "codelets/backend/cpu_worker.h"

#include <cblas.h>
#include <omp.h>
#include <starpu.h>

#include <array>
#include <atomic>
#include <ctime>
#include <thread>

namespace prorata {
namespace {

using Clock = std::chrono::steady_clock;

struct alignas(64) Slot {
  // Written by its worker alone; atomic so that the main thread may look at it for the progress line.
  std::atomic<double> busy_seconds{0};
  double slowdown = 1;
};

std::array<Slot, STARPU_NMAXWORKERS> slots;

// That the calling thread has computed.
std::chrono::nanoseconds cpu_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

Slot& slot(int worker) { return slots.at(static_cast<std::size_t>(worker)); }

}  // namespace

void init_cpu_workers() {
  openblas_set_num_threads(1);
  // oneDNN takes its thread count from OpenMP, where it is a property of the calling thread.
  starpu_execute_on_each_worker([](void*) { omp_set_num_threads(1); }, nullptr, STARPU_CPU);
}

void set_cpu_slowdown(int worker, double factor) { slot(worker).slowdown = factor; }
double cpu_slowdown(int worker) { return slot(worker).slowdown; }

double cpu_busy_seconds(int worker) { return slot(worker).busy_seconds.load(std::memory_order_relaxed); }
void reset_cpu_busy_seconds() {
  for (Slot& s : slots) s.busy_seconds = 0;
}

CpuWorkerClock::CpuWorkerClock() : worker_(starpu_worker_get_id()), start_(Clock::now()) {
  if (worker_ >= 0 && slots[static_cast<std::size_t>(worker_)].slowdown > 1) cpu_start_ = cpu_time();
}

CpuWorkerClock::~CpuWorkerClock() {
  if (worker_ < 0) return;
  Slot& own = slots[static_cast<std::size_t>(worker_)];
  auto end = Clock::now();
  if (own.slowdown > 1) {
    const auto until =
        end + std::chrono::duration_cast<Clock::duration>((cpu_time() - cpu_start_) * (own.slowdown - 1));
    constexpr std::chrono::microseconds kLateness{150};  // of a thread that sleeps, at most
    if (until - end > 2 * kLateness) std::this_thread::sleep_until(until - kLateness);
    while (end < until) end = Clock::now();
  }
  const double seconds = std::chrono::duration<double>(end - start_).count();
  own.busy_seconds.store(own.busy_seconds.load(std::memory_order_relaxed) + seconds, std::memory_order_relaxed);
}

}  // namespace prorata
