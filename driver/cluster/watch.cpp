#include "driver/cluster/watch.h"

#include "driver/exit_code.h"
#include "driver/report/log.h"
#include "driver/stop_signal.h"

namespace prorata {

Watch::Watch(const Job& job, double timeout, std::function<std::vector<int>()> waits_for,
             std::function<std::string()> hint)
    : job_(job), timeout_(timeout), waits_for_(std::move(waits_for)), hint_(std::move(hint)), thread_([this] {
        std::unique_lock lock(mutex_);
        while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return ending_; })) look();
      }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Watch::look() {
  const std::string here = "rank " + std::to_string(job_.rank());
  if (!told_ && StopSignal::caught() != 0) {
    told_ = true;
    if (job_.rank() < 2) log_warning(here + " is told to end: by the user, or since another rank is gone" + hint_());
  }
  if (now() - last_ < timeout_) return;
  std::string whom;
  for (const int rank : waits_for_()) whom += (whom.empty() ? "rank " : ", rank ") + std::to_string(rank);
  log_error(here + " has waited for " + (whom.empty() ? "the others" : whom) + " for " +
            std::to_string(static_cast<long>(timeout_)) + " s (--rank-timeout), and ends the job" + hint_());
  job_.abort(exit_failed);
}

}  // namespace prorata
