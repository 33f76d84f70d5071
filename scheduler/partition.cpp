#include "scheduler/partition.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

namespace prorata {
namespace {

// Replaces what is not known by the median of what is.
std::vector<double> with_guesses(std::span<const double> seconds) {
  std::vector<double> known;
  for (double s : seconds)
    if (std::isfinite(s)) known.push_back(s);
  double guess = 1;
  if (!known.empty()) {
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
    std::nth_element(known.begin(), middle, known.end());
    guess = *middle;
  }
  std::vector<double> result(seconds.begin(), seconds.end());
  for (double& s : result)
    if (std::isnan(s)) s = guess;
  return result;
}

}  // namespace

std::vector<std::int64_t> partition_count(std::span<const double> seconds, std::int64_t total) {
  const std::vector<double> s = with_guesses(seconds);
  std::vector<std::int64_t> shares(s.size(), 0);
  double speed = 0;  // of all together
  for (double t : s)
    if (std::isfinite(t)) speed += 1 / t;
  if (speed == 0) return shares;

  // No round ends before total / speed, so what each finishes by then is its own in any case. The factor keeps
  // rounding from giving away one too many; at most one a worker is left for the second step.
  const double earliest = static_cast<double>(total) / speed * (1 - 1e-12);
  std::int64_t left = total;
  for (std::size_t w = 0; w < s.size(); ++w)
    if (std::isfinite(s[w])) left -= shares[w] = static_cast<std::int64_t>(earliest / s[w]);

  using Finish = std::tuple<double, double, std::size_t>;  // end of the worker's next one, its seconds, worker
  std::priority_queue<Finish, std::vector<Finish>, std::greater<>> next;
  for (std::size_t w = 0; w < s.size(); ++w)
    if (std::isfinite(s[w])) next.emplace(static_cast<double>(shares[w] + 1) * s[w], s[w], w);
  for (; left > 0; --left) {
    const auto [end, one, w] = next.top();
    next.pop();
    ++shares[w];
    next.emplace(static_cast<double>(shares[w] + 1) * one, one, w);
  }
  return shares;
}

std::vector<std::int64_t> partition_uniform(std::span<const double> seconds, std::int64_t total) {
  std::vector<std::int64_t> shares(seconds.size(), 0);
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

}  // namespace prorata
