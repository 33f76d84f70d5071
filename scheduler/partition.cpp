#include "scheduler/partition.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

namespace prorata {
namespace {

using Shares = std::vector<std::int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The worker whose seconds are the median of what is known, the upper one of two; -1 where nothing is.
std::ptrdiff_t median_worker(std::span<const double> seconds) {
  std::vector<std::pair<double, std::ptrdiff_t>> known;
  for (std::size_t w = 0; w < seconds.size(); ++w)
    if (std::isfinite(seconds[w])) known.emplace_back(seconds[w], static_cast<std::ptrdiff_t>(w));
  if (known.empty()) return -1;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end());
  return middle->second;
}

// Between two moments >= 0 in the order of all doubles, so that times of any magnitude are reached in as many steps.
double halfway(double early, double late) {
  const auto a = std::bit_cast<std::uint64_t>(early), b = std::bit_cast<std::uint64_t>(late);
  return std::bit_cast<double>(a + (b - a) / 2);
}

// Whether the sum over all workers of high - low is above `limit`, however large it is.
bool more_between(const Shares& low, const Shares& high, std::int64_t limit) {
  std::int64_t sum = 0;
  for (std::size_t w = 0; w < high.size() && sum <= limit; ++w) sum += high[w] - low[w];
  return sum > limit;
}

// The `total` first of all ends. `end(w, k)`: when worker w ends its k-th unit, k >= 1, never decreasing in k.
// `within(w, time)`: how many it has ended by then. `most`: so many of each at most, 0 for one that cannot work. Of
// units that end together those of the worker with the earliest first unit come first, then those of the first worker.
template <class End, class Within>
Shares first_ends(std::int64_t total, const Shares& most, End end, Within within) {
  const Shares none(most.size(), 0);
  Shares low = none, high = none;    // by `early`, not too many; by `late`, too many
  std::vector<std::size_t> between;  // workers of whom low < high
  double early = kInfinity, late = 0;
  for (std::size_t w = 0; w < most.size(); ++w) {
    high[w] = std::clamp<std::int64_t>(most[w], 0, total);
    if (high[w] == 0) continue;
    between.push_back(w);
    early = std::min(early, end(w, 1));
    late = std::max(late, end(w, high[w]));
  }
  if (!more_between(none, high, total)) return high;
  early = std::nextafter(early, 0);

  // Until there is about one a worker to choose from, or until all that are left end at the same time.
  while (more_between(low, high, static_cast<std::int64_t>(most.size()))) {
    const double time = halfway(early, late);
    if (time == early) break;
    Shares middle = low;
    for (std::size_t w : between) middle[w] = std::clamp(within(w, time), low[w], high[w]);
    const bool too_many = more_between(none, middle, total);
    (too_many ? late : early) = time;
    (too_many ? high : low) = std::move(middle);
    std::erase_if(between, [&](std::size_t w) { return low[w] == high[w]; });
  }

  std::vector<std::tuple<double, double, std::size_t, std::int64_t>> candidates;  // end, first end, worker, units
  const bool together = more_between(low, high, static_cast<std::int64_t>(most.size()));
  for (std::size_t w : between)
    for (std::int64_t k = low[w], n = together ? high[w] - k : 1; k < high[w]; k += n)
      candidates.emplace_back(end(w, k + n), end(w, 1), w, n);
  std::sort(candidates.begin(), candidates.end());
  std::int64_t left = total;
  for (std::int64_t n : low) left -= n;
  for (const auto& [time, first, w, units] : candidates) {
    const std::int64_t n = std::min(left, units);
    low[w] += n;
    left -= n;
  }
  return low;
}

}  // namespace

Shares partition_count(std::span<const double> seconds, std::int64_t total) {
  const std::ptrdiff_t median = median_worker(seconds);
  std::vector<double> s(seconds.begin(), seconds.end());
  for (double& one : s)
    if (std::isnan(one)) one = median < 0 ? 1 : seconds[static_cast<std::size_t>(median)];
  Shares most;
  for (double one : s) most.push_back(std::isinf(one) ? 0 : total);

  const auto end = [&](std::size_t w, std::int64_t k) { return static_cast<double>(k) * s[w]; };
  const auto within = [&](std::size_t w, double time) {
    auto n = static_cast<std::int64_t>(std::min(time / s[w], static_cast<double>(total)));
    while (n > 0 && end(w, n) > time) --n;  // where the quotient was rounded
    while (n < total && end(w, n + 1) <= time) ++n;
    return n;
  };
  return first_ends(total, most, end, within);
}

Shares partition_uniform(std::span<const double> seconds, std::int64_t total) {
  Shares shares(seconds.size(), 0);
  const auto able = std::count_if(seconds.begin(), seconds.end(), [](double s) { return !std::isinf(s); });
  if (able == 0) return shares;
  std::int64_t more = total % able;
  for (std::size_t w = 0; w < seconds.size(); ++w)
    if (!std::isinf(seconds[w])) shares[w] = total / able + (more-- > 0 ? 1 : 0);
  return shares;
}

double makespan(std::span<const double> seconds, std::span<const std::int64_t> shares) {
  double longest = 0;
  for (std::size_t w = 0; w < seconds.size(); ++w)
    if (shares[w] > 0 && std::isfinite(seconds[w]))
      longest = std::max(longest, static_cast<double>(shares[w]) * seconds[w]);
  return longest;
}

Shares partition_size(std::span<const SizeWorker> workers, std::int64_t total) {
  static const TimeFunction kAlike({{1, 1}});
  const auto equal = std::max<std::int64_t>(1, total / std::max<std::int64_t>(1, std::ssize(workers)));
  std::vector<double> at_equal;
  for (const SizeWorker& worker : workers) at_equal.push_back(worker.time.seconds(equal));
  const std::ptrdiff_t median = median_worker(at_equal);
  const TimeFunction& guess = median < 0 ? kAlike : workers[static_cast<std::size_t>(median)].time;

  std::vector<const TimeFunction*> time;
  Shares most;
  for (const SizeWorker& worker : workers) {
    time.push_back(worker.time.known() ? &worker.time : &guess);
    most.push_back(worker.time.able() ? std::min(worker.most, TimeFunction::kMost) : 0);
  }
  const auto end = [&](std::size_t w, std::int64_t k) { return workers[w].free_at + time[w]->seconds(k); };
  const auto within = [&](std::size_t w, double moment) {
    return time[w]->samples_within(moment - workers[w].free_at);
  };
  return first_ends(total, most, end, within);
}

double makespan(std::span<const SizeWorker> workers, std::span<const std::int64_t> shares) {
  double latest = 0;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const double seconds = workers[w].time.seconds(shares[w]);
    if (shares[w] > 0 && std::isfinite(seconds)) latest = std::max(latest, workers[w].free_at + seconds);
  }
  return latest;
}

bool worth_changing(std::span<const double> then, std::span<const double> now, double end_kept, double end_best,
                    double dead_band) {
  for (std::size_t w = 0; w < now.size(); ++w) {
    if (std::isnan(then[w]) != std::isnan(now[w]) || std::isinf(then[w]) != std::isinf(now[w])) return true;
    if (std::isfinite(now[w]) && std::max(then[w], now[w]) > kClearChange * std::min(then[w], now[w])) return true;
  }
  return end_kept > (1 + dead_band) * end_best;
}

}  // namespace prorata
