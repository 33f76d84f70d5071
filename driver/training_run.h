// A run: epochs over the training set, each with an evaluation at its end, and checkpoints in between.
//
// Position. A run is at sample `samples` of epoch `epoch`, and its order of samples follows from (seed, epoch), so the
// two are all that a checkpoint has to say of it. Mini-batches are dealt in that order; an epoch is one pass of the
// trainer, or several where a checkpoint is wanted within it: between passes nothing is in flight.
//
// Several ranks make a pass together, each a part of it (driver/cluster/ranks.h). At its end all know what all have
// done, so that they go on alike: the sums are the same everywhere then, and rank 0 alone tells of them. Stopped within
// an asynchronous pass, each rank has done something of its part, which is no position: such a run goes on from its
// last checkpoint.
//
// Checkpoints do not change what is computed. With bsp they wait for the end of a step, so that steps are the same
// with and without them. With several asynchronous workers each costs one drain: a mini-batch of the slowest worker.
#pragma once

#include "driver/checkpoint.h"
#include "driver/cluster/ranks.h"
#include "driver/data/dataset.h"
#include "driver/evaluation.h"
#include "driver/options.h"
#include "driver/report/progress.h"
#include "driver/report/run_directory.h"
#include "driver/report/summary.h"
#include "driver/tally.h"
#include "driver/trainer.h"
#include "models/network.h"

#include <mutex>
#include <string>
#include <vector>

namespace prorata {

class TrainingRun {
 public:
  // `base`: what state.json says beside the run's position. All must outlive the run, which takes notes in the summary.
  TrainingRun(const Job& job, const TrainOptions& options, Network& network, const Dataset& data, Summary& summary,
              RunDirectory& out, Checkpoints& checkpoints, std::string network_file, nlohmann::json base);

  // Takes the position and the sums of a checkpoint, whose parameters the network has already. InputError where its
  // state is not that of such a run.
  void go_on_from(const Checkpoint& checkpoint);
  // To the end, to a signal, or until it diverges: `stopped_by` of the summary says which. Unless it diverged, or
  // several asynchronous ranks were stopped, there is a checkpoint then of all that was done.
  void run();

  static constexpr const char* kDiverged = "divergence";

 private:
  void price();
  void shuffle();
  void train_until(std::int64_t minibatch);
  void train_pass(std::size_t samples);
  void add_up(const Tally& before, std::uint64_t minibatches_before);
  void note_expectations();
  void close_epoch();
  void write_checkpoint();
  void note_signal();
  bool record(const MinibatchResult& minibatch);
  void tick();
  void flush_intervals();

  std::int64_t minibatches_of_epoch() const { return (std::ssize(order_) + summary_.batch - 1) / summary_.batch; }
  std::int64_t next_checkpoint() const;
  UpdateStep step(const Part& part, std::size_t sample) const;

  const TrainOptions& options_;
  const Dataset& data_;
  Summary& summary_;
  RunDirectory& out_;
  Checkpoints& checkpoints_;
  const std::string network_file_;
  const nlohmann::json base_;
  Network& network_;
  Ranks ranks_;
  Trainer trainer_;
  SampleHandles train_;
  Progress progress_;
  LearningRate learning_rate_{};
  std::vector<std::uint32_t> order_;  // of this epoch's samples

  int epoch_ = 1;             // that it is in
  bool saved_ = false;        // the last checkpoint has all that was done
  bool at_position_ = true;   // what was done of the epoch is the front of its order
  double epoch_seconds_ = 0;  // of training in this epoch
  double interval_seconds_ = 0;
  std::size_t others_samples_ = 0;  // of other ranks in this pass
  std::uint64_t sent_before_ = 0;   // bytes, when the last pass ended
  double epoch_start_ = 0;          // as if it had been one pass
  std::mutex mutex_;                // what follows, and the summary while a pass runs
  Tally epoch_tally_, interval_, shown_;
  double interval_start_ = 0;
  std::vector<nlohmann::ordered_json> intervals_;
  bool diverged_ = false;
};

}  // namespace prorata
