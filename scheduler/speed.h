// How long a worker needs for a group: StarPU's performance models of its tasks, corrected by what was measured.
//
// Price. A group is priced by summing, over its tasks, what the models expect of the worker's best implementation.
// One group of each kind and size is priced per round, as its tasks are submitted; asking a model that does not know
// yet also makes StarPU record the task from then on. Sizes between those with a price have that of the line between.
// Correction. The ratio measured / priced of the worker, over all sizes, multiplies the price: it holds the cost of the
// runtime itself, and follows a device that becomes slower. Where the models know nothing, the measured time itself is
// used. Of either the median of the last five counts, so that single outliers weigh nothing (the first group of a
// worker, which makes its primitives, is one); but where the last two both lie clearly to one side of it
// (kClearChange), the nearer of them: a lasting change is seen after two groups. Fewer than three measurements are
// none; but for a worker that took more than kHopeless times as long as another one needs, which need not be tried
// again before anything is believed.
//
// Plain C++, no StarPU. Threads: none; the policy's lock guards it. Workers are StarPU's worker ids. Seconds.
#pragma once

#include "scheduler/time_function.h"

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace prorata {

class Speeds {
 public:
  using Work = std::pair<std::uint32_t, std::uint32_t>;  // kind, samples

  // The prices of this kind are old: the next group of each size is to be priced again. Its tasks come one by one.
  void forget_prices(std::uint32_t kind);
  bool wants_price(Work work) const;
  void begin_price(Work work, const std::vector<int>& workers);
  void add_price(Work work, unsigned worker, double seconds);
  void end_price(Work work);
  // The whole price at once; one that is being added up meanwhile is left alone.
  void set_price(Work work, unsigned worker, double seconds);

  void measured(Work work, unsigned worker, double seconds);

  // NaN where neither models nor measurements know.
  double seconds(Work work, unsigned worker) const;
  // The same for any number of samples: through all prices, times the ratio; without prices through the last few sizes
  // that were measured.
  TimeFunction time(std::uint32_t kind, unsigned worker) const;

 private:
  // What the last few values say.
  class Recent {
   public:
    void add(double value);
    double estimate() const;  // NaN while there are too few
    double smallest() const;  // NaN where there is none
    void forget() { count_ = 0; }

   private:
    std::array<double, 5> values_{};
    std::size_t count_ = 0;
  };
  struct Estimate {
    double price = __builtin_nan("");
    double pending = 0;  // the price that is being added up
    Recent measured;
    std::uint64_t measured_at = 0;  // larger is later
  };
  struct WorkerSpeeds {
    std::map<std::uint32_t, Estimate> sizes;
    TimeFunction prices;
    Recent ratio;
  };
  struct Kind {
    std::map<std::uint32_t, bool> stale;  // by size
    std::map<unsigned, WorkerSpeeds> workers;
  };

  const WorkerSpeeds* find(std::uint32_t kind, unsigned worker) const;
  // 0 seconds: no task has a model at all.
  static void set_price(WorkerSpeeds& worker, std::uint32_t samples, double seconds);

  // From measurements alone.
  double measured(Work work, const WorkerSpeeds& worker) const;

  static constexpr double kHopeless = 100;

  std::map<std::uint32_t, Kind> kinds_;
  std::uint64_t measurements_ = 0;
};

}  // namespace prorata
