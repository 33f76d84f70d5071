#include "driver/cluster/ranks.h"

#include "scheduler/prorata.h"

#include <algorithm>

namespace prorata {
namespace {

// Of this rank, as the models know its workers; 0: they do not know all of them.
double expected_speed(std::int32_t batch) {
  double speed = 0;
  for (unsigned w = 0; w < starpu_worker_get_count(); ++w) {
    const double seconds =
        prorata_expected_seconds(0, static_cast<int>(w), static_cast<std::uint32_t>(GroupKind::train),
                                 static_cast<std::uint32_t>(batch));
    if (!(seconds > 0)) return 0;
    speed += batch / seconds;
  }
  return speed;
}

}  // namespace

Ranks::Ranks(const Job& job, Network& network, const RanksOptions& options, std::function<void()> may_begin_again,
             std::function<std::string()> hint)
    : job_(job), network_(network), options_(options), replicas_(options.replicas) {
  if (job.alone()) return;
  const std::vector<double> replicas = job.gather(static_cast<double>(options.replicas));
  replicas_ = 0;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    if (r == static_cast<std::size_t>(job.rank())) replicas_before_ = replicas_;
    replicas_ += static_cast<std::size_t>(replicas[r]);
  }
  blocks_ = share_out(network, job.ranks());
  if (options.consistency == Consistency::bsp) {
    gradient_sum_ = make_gradient_sum(job, network);
  } else {
    exchange_ = make_exchange(job, network,
                              {static_cast<float>(options.elastic ? *options.elastic : options.exchange_weight),
                               options.exchange_format, options.elastic.has_value()});
    rounds_.emplace(
        options.consistency == Consistency::ssp,
        [this](bool last, const std::function<void(bool)>& answered) {
          exchange_->begin_round(last, [this, answered](bool ended) {
            watch_->progress();
            answered(ended);
          });
        },
        std::move(may_begin_again));
  }
  watch_.emplace(
      job, options.timeout, [this] { return exchange_ ? exchange_->waits_for() : std::vector<int>(); },
      std::move(hint));
}

// Of all ranks, as the last pass measured them or, before there was one, as the models say; where they do not know, by
// their workers.
std::vector<double> Ranks::speeds() const {
  if (options_.balance == PRORATA_UNIFORM) return std::vector<double>(static_cast<std::size_t>(job_.ranks()), 1);
  std::vector<double> speeds = job_.gather(measured_ > 0 ? measured_ : expected_speed(options_.batch));
  const std::vector<double> workers = job_.gather(starpu_worker_get_count());
  return std::ranges::all_of(speeds, [](double speed) { return speed > 0; }) ? speeds : workers;
}

Part Ranks::begin(std::span<const std::uint32_t> order, std::size_t from, std::size_t to) {
  if (job_.alone()) return Part(order, from, to);
  watch_->progress();
  const auto batch = static_cast<std::size_t>(options_.batch);
  if (gradient_sum_)
    return Part(order, from, to, replicas_ * batch, replicas_before_ * batch, options_.replicas * batch);
  const std::vector<std::size_t> begins = divide(to - from, batch, speeds());
  const auto rank = static_cast<std::size_t>(job_.rank());
  const std::size_t own = begins[rank + 1] - begins[rank];
  const std::size_t period = batch * options_.exchange_period * static_cast<std::size_t>(job_.ranks());
  trained_ = 0;
  behind_ = {};
  rounds_->start((to - from + period - 1) / period, own);
  began_ = trained_until_ = starpu_timing_now() * 1e-6;
  return Part(order, from, to, to - from, begins[rank], own);
}

void Ranks::trained(const MinibatchResult& minibatch) {
  if (watch_) watch_->progress();
  if (!rounds_) return;
  trained_ += minibatch.samples;
  trained_until_ = std::max(trained_until_, minibatch.finished);
  rounds_->trained(minibatch.samples);
  behind_.add(rounds_->behind());
}

void Ranks::finish() {
  if (job_.alone()) return;
  if (rounds_) {
    rounds_->finish();
    const double seconds = trained_until_ - began_ - rounds_->closed_seconds();
    if (trained_ > 0 && seconds > 0) measured_ = static_cast<double>(trained_) / seconds;
    exchange_->settle();
  }
  synchronize();
  if (exchange_) exchange_->begin_anew();
}

Score Ranks::evaluate(Trainer& trainer, const Samples& samples, const std::function<bool()>& stop) {
  if (job_.alone()) return prorata::evaluate(trainer, samples, stop);
  const std::vector<std::size_t> begins = divide(samples.size(), static_cast<std::size_t>(options_.batch), speeds());
  const auto rank = static_cast<std::size_t>(job_.rank());
  Score score = prorata::evaluate(trainer, samples, static_cast<std::uint32_t>(begins[rank]),
                                  static_cast<std::uint32_t>(begins[rank + 1]), [&] {
                                    watch_->progress();
                                    return stop();
                                  });
  const auto own = static_cast<double>(score.samples);
  const std::vector<double> sums = job_.sum({own, score.loss * own, score.accuracy * own});
  score.samples = static_cast<std::uint64_t>(sums[0]);
  score.complete = score.samples == samples.size();
  score.loss = sums[1] / std::max(1.0, sums[0]);
  score.accuracy = sums[2] / std::max(1.0, sums[0]);
  return score;
}

// The owners know most of the parameters. Each rank has moved running statistics by its own mini-batches only.
void Ranks::synchronize() {
  network_.fetch(STARPU_RW);
  for (const OwnedBlock& block : blocks_) job_.broadcast(block.parameters->values.span(), block.owner);
  for (std::size_t i = 0; i < network_.depth(); ++i) {
    RunningStatistics* statistics = network_.statistics(i);
    if (!statistics) continue;
    const std::span<float> values = statistics->values.span();
    const std::vector<double> sums = job_.sum({values.begin(), values.end()});
    std::ranges::transform(sums, values.begin(), [this](double sum) { return static_cast<float>(sum / job_.ranks()); });
  }
}

}  // namespace prorata
