#include "driver/cluster/part.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace prorata {

Part::Part(std::span<const std::uint32_t> order, std::size_t from, std::size_t to, std::size_t stretch,
           std::size_t offset, std::size_t own)
    : from_(from), to_(to), stretch_(std::max<std::size_t>(1, stretch)), offset_(offset), own_(own) {
  for (std::size_t at = from; at < to && own > 0; at += stretch_) {
    const std::size_t first = std::min(at + offset, to), last = std::min(first + own, to);
    samples_.insert(samples_.end(), order.begin() + static_cast<std::ptrdiff_t>(first),
                    order.begin() + static_cast<std::ptrdiff_t>(last));
  }
  own_ = std::max<std::size_t>(1, own);
}

std::vector<std::size_t> divide(std::size_t total, std::size_t batch, std::vector<double> speeds) {
  if (std::ranges::any_of(speeds, [](double speed) { return !(speed > 0); })) std::ranges::fill(speeds, 1);
  const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  const std::size_t minibatches = (total + batch - 1) / batch;
  const auto batches = static_cast<double>(minibatches);
  std::vector<std::size_t> begins{0};
  double before = 0;
  for (const double speed : speeds) {
    before += speed;
    begins.push_back(std::min(static_cast<std::size_t>(std::llround(batches * before / all)) * batch, total));
  }
  begins.back() = total;
  return begins;
}

}  // namespace prorata
