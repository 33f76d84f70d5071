// Which part of a pass each rank does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace prorata {

// A rank's samples in a pass, in the order in which it deals them. The pass is one stretch of the epoch's order, or
// several equal ones, the steps; a rank has the same part of each, and the last may be shorter.
class Part {
 public:
  // Of the epoch's `order` from `from` to before `to`, in stretches of `stretch` samples, those from `offset` on in
  // each, up to `own`.
  Part(std::span<const std::uint32_t> order, std::size_t from, std::size_t to, std::size_t stretch, std::size_t offset,
       std::size_t own);
  // All of it.
  Part(std::span<const std::uint32_t> order, std::size_t from, std::size_t to)
      : Part(order, from, to, to - from, 0, to - from) {}

  const std::vector<std::uint32_t>& samples() const { return samples_; }
  std::size_t stretches() const { return (to_ - from_ + stretch_ - 1) / stretch_; }
  // Of this rank's sample `n`, which may be the one behind the last: its place in the epoch's order,
  std::size_t place(std::size_t n) const { return begin(n) + offset_ + n % own_; }
  // how much of the epoch's order is done when this rank begins it, if all ranks keep pace,
  std::size_t progress(std::size_t n) const { return begin(n) + n % own_ * stretch_ / own_; }
  // and how many samples its stretch has on all ranks together.
  std::size_t in_stretch(std::size_t n) const { return std::min(stretch_, to_ - begin(n)); }

 private:
  std::size_t begin(std::size_t n) const { return from_ + n / own_ * stretch_; }

  std::size_t from_, to_, stretch_, offset_, own_;
  std::vector<std::uint32_t> samples_;
};

// `total` samples in mini-batches of `batch`, in proportion to `speeds`: where the part of each rank begins, and the
// end of the last. Whole mini-batches but for the very last one. The same for each where not all speeds are known (0).
std::vector<std::size_t> divide(std::size_t total, std::size_t batch, std::vector<double> speeds);

}  // namespace prorata
