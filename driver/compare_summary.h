// The arithmetic of `prorata compare`: from single runs to medians and ratios. No StarPU, no clock, no files.
//
// An experiment is one choice of slowed workers. In each repetition, which has a seed of its own, every rule runs
// once, and each worker runs alone once. Ratios are formed within a repetition, between runs that took turns; what is
// told is their median. So a machine whose speed changes from minute to minute changes both sides of a ratio.
//
//   sum of speeds   s_1 + ... + s_P: samples/s of the P workers, each alone, in the same repetition
//   ceiling         (s_1 + ... + s_P) / (P * min s_w): what dealing in proportion to speed can gain over equal shares,
//   which
//                   end when the slowest has done its P-th part; (1 + s) / (2 s) for speeds 1 and s
//
// A run that failed has no figures, and whatever would need them is missing (nullopt), never guessed.
#pragma once

#include "driver/compare_rules.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace prorata {

struct ComparedRun {
  std::string slowdown;  // names the experiment
  Rule rule;
  std::optional<int> alone;  // the worker that ran alone; its rule is then only a label
  std::uint64_t seed = 0;    // names the repetition
  std::string error;         // why it failed; the figures hold only where it is empty

  double samples_per_second = 0;
  double test_accuracy = 0;
  double staleness_mean = 0;  // over all mini-batches
  // Of the worker that is slowed most; among equals the one that was slowest in this run.
  double slowest_staleness_mean = 0, slowest_staleness_p95 = 0;

  bool failed() const { return !error.empty(); }
};

// Takes the figures from a summary.json. nlohmann::json's exceptions: it is none.
void take_figures(const nlohmann::ordered_json& summary, ComparedRun& run);

// What a run is worth beside the others of its repetition.
struct Ratios {
  std::optional<double> sum_of_speeds;  // the yardstick itself, samples/s
  std::optional<double> ceiling;
  std::optional<double> to_sum;      // samples/s by the sum of speeds
  std::optional<double> to_uniform;  // samples/s by those of the rule `uniform`: the gain
  std::optional<double> to_ceiling;  // the gain by the ceiling
};

struct ComparisonRow {
  std::string label;
  std::optional<int> alone;
  bool ours = false;  // under the policy prorata
  int runs = 0, failed = 0;
  std::string error;  // of the first that failed
  // Where no run succeeded the figures are 0 and the ratios missing.
  double samples_per_second = 0, slowest_run = 0, fastest_run = 0;  // median, least, most
  double accuracy_mean = 0, accuracy_min = 0, accuracy_max = 0;
  double staleness_mean = 0, slowest_staleness_mean = 0, slowest_staleness_p95 = 0;  // medians
  std::optional<double> to_sum, to_uniform, to_ceiling;                              // medians
  // Samples/s of each rule of ours that is in proportion to speed by those of this row: (its label, median).
  std::vector<std::pair<std::string, std::optional<double>>> ours_to_it;

  bool measured() const { return runs > failed; }
  // (most - least) / median of samples/s.
  double spread() const { return measured() ? (fastest_run - slowest_run) / samples_per_second : 0; }
};

struct ExperimentSummary {
  std::string slowdown;
  std::optional<double> sum_of_speeds, ceiling;  // medians
  std::vector<ComparisonRow> rows;               // in the order in which the rules first ran
};

struct Comparison {                 // NOLINT(bugprone-exception-escape): nlohmann's moves do not throw
  nlohmann::ordered_json training;  // what all runs have in common, as summary.json has it; null before the first
  std::size_t workers = 0;          // of which each runs alone, once a repetition
  int repeats = 0;                  // that were asked for
  std::string stopped_by;           // a signal's name, or ""
  std::vector<ComparedRun> runs;
};

Ratios ratios(const Comparison& comparison, const ComparedRun& run);
std::vector<ExperimentSummary> summarize(const Comparison& comparison);

nlohmann::ordered_json json(const Comparison& comparison);

// The table for a person.
std::string text(const Comparison& comparison);
// "lenet5 on fashion-mnist, 3 epoch(s), batch 64".
std::string title(const Comparison& comparison);
// "worker 1 slowed 4x", "no worker slowed".
std::string describe_slowdown(const std::string& slowdown);

}  // namespace prorata
