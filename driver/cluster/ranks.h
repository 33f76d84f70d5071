// This rank among the others: what a training run asks of the job. Where there is one rank nothing is done.
//
// A pass begins on all ranks at once: each gets a part of its samples, and at its end all have the same parameters.
// What happens in between is docs/ranks.md's matter: rounds of exchange (asp, ssp), or a common sum of gradients for
// each step (bsp).
#pragma once

#include "driver/cluster/exchange.h"
#include "driver/cluster/gradient_sum.h"
#include "driver/cluster/job.h"
#include "driver/cluster/owners.h"
#include "driver/cluster/part.h"
#include "driver/cluster/rounds.h"
#include "driver/cluster/watch.h"
#include "driver/evaluation.h"
#include "driver/report/staleness_histogram.h"
#include "driver/trainer.h"
#include "models/network.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace prorata {

struct RanksOptions {
  Consistency consistency;
  prorata_balance balance;
  std::int32_t batch;
  std::size_t replicas;           // of this rank: what it adds to a step
  std::uint32_t exchange_period;  // mini-batches of a rank between two rounds, on average
  double exchange_weight;         // what a rank's own training counts for
  WireFormat exchange_format;     // of what they tell each other
  std::optional<double> elastic;  // elastic averaging, by how much; the weight is then not asked for
  double timeout;                 // seconds to wait for the others
};

class Ranks {
 public:
  // On all ranks at once, with the same parameters. `may_begin_again`: called, from a thread of its own, when
  // may_begin() has become true. `hint`: the end of a sentence, how to go on when the job is ended; from any thread.
  // Job and network must outlive it.
  Ranks(const Job& job, Network& network, const RanksOptions& options, std::function<void()> may_begin_again,
        std::function<std::string()> hint);

  const Job& job() const { return job_; }
  // For the trainer's steps; none where there are no common ones.
  const GradientSum& gradient_sum() const { return gradient_sum_; }
  // Whether ranks train on by themselves within a pass.
  bool asynchronous() const { return exchange_ != nullptr; }
  // What a rank's learning rate is multiplied by. Of what it learns only `exchange_weight` counts: so a sample moves
  // the parameters as far as with one rank, whatever the weight. With elastic averaging each rank is a run of its own.
  double rate_factor() const { return asynchronous() && !options_.elastic ? 1 / options_.exchange_weight : 1; }
  // Of all ranks: mini-batches of a step.
  std::size_t replicas() const { return replicas_; }

  // On all ranks at once: a pass over the samples of an epoch's `order` from `from` to before `to`, of which this rank
  // does the part that is returned.
  Part begin(std::span<const std::uint32_t> order, std::size_t from, std::size_t to);
  // Of this pass, on this rank: one mini-batch more is done.
  void trained(const MinibatchResult& minibatch);
  // Whether one more mini-batch may begin.
  bool may_begin() const { return !rounds_ || rounds_->may_begin(); }
  // On all ranks at once, when this one's part is done, or will not be done: exchanges what is left to be, and makes
  // the parameters the same everywhere. No mini-batch is in flight.
  void finish();

  // On all ranks at once: evaluates on all samples, each rank a part of them. A rank that `stop`s makes it incomplete.
  Score evaluate(Trainer& trainer, const Samples& samples, const std::function<bool()>& stop);

  // Of the last pass: its rounds, and those that were due and not answered when a mini-batch ended.
  std::uint64_t rounds() const { return rounds_ ? rounds_->made() : 0; }
  const StalenessHistogram& behind() const { return behind_; }

 private:
  std::vector<double> speeds() const;
  void synchronize();

  const Job& job_;
  Network& network_;
  const RanksOptions options_;
  std::size_t replicas_ = 0, replicas_before_ = 0;  // of all ranks, and of those before this one
  std::vector<OwnedBlock> blocks_;
  GradientSum gradient_sum_;
  std::unique_ptr<Exchange> exchange_;
  std::optional<Rounds> rounds_;
  std::optional<Watch> watch_;

  double measured_ = 0;        // samples per second of this rank in the last pass; 0: there was none
  std::uint64_t trained_ = 0;  // samples in this pass
  double began_ = 0, trained_until_ = 0;
  StalenessHistogram behind_;
};

}  // namespace prorata
