// Bounded staleness ("stale synchronous parallel", Ho et al., NIPS 2013): may one more mini-batch begin?
//
// The bound is on what every report of ours calls staleness: the updates by others between a mini-batch's begin and its
// own update. Ho et al. bound how many iterations a worker is ahead of the slowest; where iterations are dealt in
// proportion to speed workers differ in that by design, and it would hold the fast ones back for nothing.
//
// Rule. For each mini-batch in flight, the updates it has seen plus the others in flight, each of which may yet update
// before it, stay within the bound. An update moves one from the second number to the first, so only a begin can
// break this, and is refused where it would. Bound 0: one mini-batch at a time.
//
// With nothing in flight the answer is yes, so nothing waits for ever. Threads: none, the caller's lock guards it.
#pragma once

#include <cstdint>
#include <map>

namespace prorata {

class StalenessBound {
 public:
  explicit StalenessBound(std::uint64_t bound) : bound_(bound) {}

  bool may_begin() const {
    const std::uint64_t others = seen_.size();
    if (others > bound_) return false;
    for (const auto& [minibatch, seen] : seen_)
      if (seen + others > bound_) return false;
    return true;
  }
  void begin(const void* minibatch) { seen_[minibatch] = 0; }
  void end(const void* minibatch) {
    seen_.erase(minibatch);
    for (auto& [other, seen] : seen_) ++seen;
  }

 private:
  std::uint64_t bound_;
  std::map<const void*, std::uint64_t> seen_;  // by mini-batch in flight: updates since its begin
};

}  // namespace prorata
