// The result of a run: summary.json, and what a person reads at the end. Names are a contract: see docs/cli.md.
#pragma once

#include "driver/report/staleness_histogram.h"
#include "driver/report/traffic.h"
#include "driver/update_rule.h"
#include "models/replica.h"
#include "scheduler/ledger.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace prorata {

struct WorkerSummary {
  int rank = 0;
  int id = 0;  // of that rank
  std::string name;
  std::string kind;  // cpu, cuda, opencl
  int memory_node = 0;
  std::uint64_t minibatches = 0;
  std::uint64_t samples = 0;
  double minibatch_seconds = 0;            // from begin to end, added up
  double expected_samples_per_second = 0;  // of the scheduler at the end; 0: not known
  double busy_seconds = 0;                 // in kernels
  double slowdown = 1;
  bool here = true;  // false: it works for another rank, or worked for an earlier part of the run
  StalenessHistogram staleness;
};
void to_json(nlohmann::json& json, const WorkerSummary& worker);
void from_json(const nlohmann::json& json, WorkerSummary& worker);

struct RankSummary {
  std::string host;
  std::uint64_t minibatches = 0, samples = 0;
  std::uint64_t rounds = 0;  // of exchange
  std::uint64_t bytes_sent = 0;
  StalenessHistogram behind;  // docs/ranks.md: by mini-batch, in rounds
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RankSummary, host, minibatches, samples, rounds, bytes_sent, behind)
};

struct Summary {
  std::string model, dataset, balance, share, consistency, scheduler;
  std::uint64_t seed = 0;
  Preprocessing preprocessing;
  std::optional<double> train_per_class;  // of a scene, as is the next
  std::optional<std::uint64_t> split_seed;
  std::optional<std::string> init;  // the parameters that it started from; none: random ones
  int epochs_wanted = 0;
  int epochs = 0;      // completed
  int batch = 0;       // of a mini-batch
  int accumulate = 1;  // micro-batches of it
  int micro_batch() const { return batch / accumulate; }
  std::int64_t lr_warmup = 0;  // mini-batches
  UpdateRule rule;
  double effective_learning_rate = 0;            // what the schedule scales
  double effective_momentum = 0;                 // what the optimizer was given
  std::optional<std::uint64_t> staleness_bound;  // of ssp
  bool staleness_aware_lr = false, dana = false, momentum_correction = false;
  double delay_compensation = 0;
  std::uint32_t replicas = 0;
  bool deterministic = false, tf32 = false;
  std::uint64_t parameters = 0;
  std::uint64_t minibatches = 0, samples = 0;
  double wall_seconds = 0;  // training only
  double train_loss = 0;    // mean over the last epoch (what is done of it)
  double test_loss = 0, test_accuracy = 0;
  bool tested = false;
  std::string stopped_by;              // "": it ran to the end; a signal's name, "divergence" or "error" otherwise
  std::vector<WorkerSummary> workers;  // first those that are here
  std::vector<RankSummary> ranks;      // where there are several
  std::vector<Round> rounds;
  std::vector<Traffic> transfers;  // of training only

  explicit Summary(int rank = 0);  // fills in this rank's workers; StarPU must be running
  void add(const MinibatchResult& minibatch);
  StalenessHistogram staleness() const;
  nlohmann::ordered_json json() const;
  std::string text() const;  // some lines for a person

  // Figures of workers: of those that are here, and to be put in place of the others'.
  std::vector<WorkerSummary> workers_here() const;
  void put(const WorkerSummary& worker);

  // What a run has counted so far, to be kept in a checkpoint and to be gone on from. A worker that is not here today
  // keeps its figures, behind those that are. nlohmann::json::exception where it is no such thing.
  nlohmann::json counts() const;
  void go_on_from(const nlohmann::json& counts);

 private:
  nlohmann::ordered_json ranks_json() const;
  WorkerSummary* find(const WorkerSummary& worker);
  std::string transfers_text() const;
  bool too_slow(const WorkerSummary& worker) const;
};

}  // namespace prorata
