// Watches over a rank that works with others: they may be gone.
//
// mpirun ends all ranks when one dies, with SIGTERM and a second later for good. A link that is cut nobody tells us of.
#pragma once

#include "driver/cluster/job.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace prorata {

class Watch {
 public:
  // Says, on the first two ranks (one of them may be who has died), when a signal comes that ends the job; and ends the
  // job, with a message, when for `timeout` seconds nothing has happened. `waits_for`: whom this rank waits for; empty:
  // it does not know. `hint`: the end of a sentence, how to go on. Both are called from the watch's thread.
  Watch(const Job& job, double timeout, std::function<std::vector<int>()> waits_for, std::function<std::string()> hint);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Something has happened. From any thread.
  void progress() { last_ = now(); }

 private:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void look();

  const Job& job_;
  const double timeout_;
  const std::function<std::vector<int>()> waits_for_;
  const std::function<std::string()> hint_;
  std::atomic<double> last_{now()};
  bool told_ = false;  // of the signal

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace prorata
