// Shares in proportion to speed: pure arithmetic, no StarPU.
//
// Source: as many mini-batches as speed, the rule of Moreno-Alvarez et al. (Jornadas SARTECO 2019). Whole numbers
// are found by earliest finish rather than by the largest remainder: for equal items this is the exact optimum
// (the shares are the `total` smallest of all finishing times k * seconds[w]), where the largest remainder may be
// one mini-batch off, and it answers by itself which workers are too slow to help.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace prorata {

// Shares out `total` >= 0 equal mini-batches among workers that need `seconds[w]` > 0 for one, so that the round ends
// as early as whole numbers allow; among workers that would finish together the fastest, then the first, is preferred.
//
// NaN: not known yet; such a worker counts as the median of the known ones (all unknown: all alike).
// Infinity: cannot work, gets 0. A worker also gets 0 when the others finish everything before its first one.
// The shares add up to `total`, unless no worker can work at all: then all are 0. O(P log P) for P workers.
std::vector<std::int64_t> partition_count(std::span<const double> seconds, std::int64_t total);

// The same number for each worker that can work, as near as whole numbers allow: the first ones get one more.
std::vector<std::int64_t> partition_uniform(std::span<const double> seconds, std::int64_t total);

// When the round ends with these shares: max over w of shares[w] * seconds[w]. Unknown seconds count as 0.
double makespan(std::span<const double> seconds, std::span<const std::int64_t> shares);

}  // namespace prorata
