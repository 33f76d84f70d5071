// Shares in proportion to speed: pure arithmetic, no StarPU.
//
// By count: as many equal mini-batches as speed, the rule of Moreno-Alvarez et al. (Jornadas SARTECO 2019). By size:
// one mini-batch each, of as many samples as take all the same time (the same authors, 10.1007/s11227-020-03200-6),
// which is the partition by functional performance models of Lastovetsky and Reddy
// (FuPerMod, 10.1007/s11227-014-1207-9).
//
// Both are one problem: give out `total` units so that the last one ends as early as can be. A worker's k-th unit never
// ends before its (k - 1)-th, so the `total` first of all these ends are an optimum in whole numbers, exactly; the
// largest remainder may be one off. It answers by itself which workers are too slow to help. The end of the last one is
// found by bisection on the common time.
#pragma once

#include "scheduler/time_function.h"

#include <cstdint>
#include <span>
#include <vector>

namespace prorata {

// Shares out `total` >= 0 equal mini-batches among workers that need `seconds[w]` > 0 for one, so that the round ends
// as early as whole numbers allow; among workers that would finish together the fastest, then the first, is preferred.
//
// NaN: not known yet; such a worker counts as the median of the known ones (all unknown: all alike).
// Infinity: cannot work, gets 0. A worker also gets 0 when the others finish everything before its first one.
// The shares add up to `total`, unless no worker can work at all: then all are 0.
std::vector<std::int64_t> partition_count(std::span<const double> seconds, std::int64_t total);

// The same number for each worker that can work, as near as whole numbers allow: the first ones get one more.
std::vector<std::int64_t> partition_uniform(std::span<const double> seconds, std::int64_t total);

// When the round ends with these shares: max over w of shares[w] * seconds[w]. Unknown seconds count as 0.
double makespan(std::span<const double> seconds, std::span<const std::int64_t> shares);

// What partition_size() is to know of a worker.
struct SizeWorker {
  TimeFunction time;                        // of one mini-batch
  std::int64_t most = TimeFunction::kMost;  // samples its memory holds; 0: cannot work
  double free_at = 0;                       // seconds from now, finite, >= 0: when it can begin
};

// Shares out `total` >= 0 samples, one mini-batch a worker, so that the last one ends as early as whole samples allow.
//
// A worker whose fixed cost alone is longer than the others need gets 0, as does one that is unable. Where nothing is
// known of a worker it counts as the median of the known ones, by their time for an equal share; of none known, all
// count as alike. The shares add up to `total`, unless the memories hold less: then each gets what its memory holds.
//
// Memory is capped per worker. Those that share a memory node are alike as a rule (a processor's cores, a GPU's
// streams): the caller divides the node's samples among them. O(P log points) for P workers in each of a few dozen
// steps.
std::vector<std::int64_t> partition_size(std::span<const SizeWorker> workers, std::int64_t total);

// When the last mini-batch of these sizes ends; workers without one, and unknown times, do not count.
double makespan(std::span<const SizeWorker> workers, std::span<const std::int64_t> shares);

// The dead band: whether shares made when workers needed `then` are worth changing, now that they need `now` (seconds,
// in any measure that is comparable: a mini-batch, or the present share). So shares do not flutter with the noise of
// measurements. Worth it is
//   a gain: with the old shares the round ends at `end_kept`, by more than `dead_band` later than with the best,
//   `end_best`; a clear change of one worker, by more than a factor of kClearChange: among many workers a single one
//   that becomes fast again is hardly a gain, but each of them is; one that became known or unknown, able or unable.
inline constexpr double kDeadBand = 0.03;
bool worth_changing(std::span<const double> then, std::span<const double> now, double end_kept, double end_best,
                    double dead_band = kDeadBand);
inline constexpr double kClearChange = 1.5;

}  // namespace prorata
