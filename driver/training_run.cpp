#include "driver/training_run.h"

#include "codelets/backend/cpu_worker.h"
#include "driver/device_check.h"
#include "driver/report/log.h"
#include "driver/report/topology.h"
#include "driver/speed/training_models.h"
#include "driver/stop_signal.h"
#include "models/errors.h"
#include "models/random.h"
#include "scheduler/policy.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <numeric>

namespace prorata {
namespace {

constexpr std::uint64_t kOrderStream = std::uint64_t{1} << 32;  // of Random; plus the epoch
constexpr std::uint64_t kMinibatchesPerInterval = 100;          // of a line in metrics.jsonl

double now() { return starpu_timing_now() * 1e-6; }

bool stop_wanted() { return StopSignal::caught() != 0; }

bool all_finite(const Network& network) {
  network.fetch(STARPU_R);
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (const ParameterBlock* block = network.parameters(i))
      for (const float v : block->values.span())
        if (!std::isfinite(v)) return false;
  return true;
}

}  // namespace

TrainingRun::TrainingRun(const Job& job, const TrainOptions& options, Network& network, const Dataset& data,
                         Summary& summary, RunDirectory& out, Checkpoints& checkpoints, std::string network_file,
                         nlohmann::json base)
    : options_(options),
      data_(data),
      summary_(summary),
      out_(out),
      checkpoints_(checkpoints),
      network_file_(std::move(network_file)),
      base_(std::move(base)),
      network_(network),
      ranks_(
          job, network,
          {.consistency = options.consistency,
           .balance = options.balance,
           .batch = summary.batch,
           .replicas = summary.replicas,
           .exchange_period = options.exchange_period,
           .exchange_weight = options.exchange_weight.value_or(std::pow(job.ranks(), -0.75)),
           .exchange_format = options.exchange_format,
           .elastic = options.elastic,
           .timeout = options.rank_timeout},
          [this] { trainer_.wake(); }, [&checkpoints] { return checkpoints.going_on(); }),
      trainer_(network, {.batch = {summary.batch, summary.micro_batch()},
                         .replicas = summary.replicas,
                         .consistency = options.consistency,
                         .staleness = summary.staleness_bound.value_or(0),
                         .remedies = {.scale_by_staleness = options.staleness_aware_lr,
                                      .compensation = static_cast<float>(options.delay_compensation),
                                      .dana = summary.dana},
                         .share = options.share,
                         .preprocessing = summary.preprocessing,
                         .exchanged = ranks_.asynchronous(),
                         .sum_over_all = ranks_.gradient_sum()}),
      train_(data.train),
      progress_(Progress::choose(options.progress, options.common.quiet)) {
  order_.resize(data.train.size());
  try_devices(network_, train_.source(), std::min(summary_.micro_batch(), trainer_.replica(0).micro_batch()),
              summary_.preprocessing);
  price();
  const UpdateRule& rule = summary.rule;
  learning_rate_ = {rule.learning_rate,
                    rule.lr_schedule,
                    summary.lr_warmup,
                    minibatches_of_epoch() * summary.epochs_wanted,
                    rule.lr_step_epochs * minibatches_of_epoch(),
                    rule.lr_gamma};
  summary.effective_learning_rate = rule.learning_rate * ranks_.rate_factor();
}

// What the models know before anything has run.
void TrainingRun::price() {
  Replica& replica = trainer_.replica(0);
  std::vector<std::int32_t> batches{std::min(summary_.batch, replica.batch())};
  if (options_.share == PRORATA_SIZE)
    for (std::int32_t b : default_batches())
      if (b <= replica.batch()) batches.push_back(b);
  replica.price_training(train_.source(), merge_batches({}, batches));
}

void TrainingRun::go_on_from(const Checkpoint& checkpoint) {
  const auto wrong = [&](const std::string& what) {
    return InputError(checkpoint.state_file().string() + ": is damaged: " + what);
  };
  std::uint64_t metrics_bytes = 0;
  try {
    const nlohmann::json& position = checkpoint.state.at("position");
    position.at("epoch").get_to(epoch_);
    position.at("epoch_tally").get_to(epoch_tally_);
    position.at("epoch_seconds").get_to(epoch_seconds_);
    position.at("interval_tally").get_to(interval_);
    position.at("interval_seconds").get_to(interval_seconds_);
    summary_.go_on_from(position.at("summary"));
    metrics_bytes = position.at("metrics_bytes").get<std::uint64_t>();
    const auto updates = position.at("updates").get<std::vector<std::uint64_t>>();
    if (updates.size() != network_.depth())
      throw wrong("updates must be " + std::to_string(network_.depth()) + " numbers");
    for (std::size_t i = 0; i < updates.size(); ++i)
      if (ParameterBlock* block = network_.parameters(i)) block->version = updates[i];
  } catch (const nlohmann::json::exception& e) {
    throw wrong(e.what());
  }
  if (epoch_ < 1 || summary_.epochs < epoch_ - 1 || summary_.epochs > epoch_ || epoch_tally_.samples > order_.size())
    throw wrong("there is no sample " + std::to_string(epoch_tally_.samples) + " in epoch " + std::to_string(epoch_));
  if (epoch_ > summary_.epochs_wanted + 1)
    throw InputError("--epochs is " + std::to_string(summary_.epochs_wanted) + ", but " +
                     std::to_string(summary_.epochs) + " are done already; give at least as many");
  out_.go_on(metrics_bytes);
  shown_ = epoch_tally_;
  saved_ = true;
}

void TrainingRun::run() {
  while (epoch_ <= summary_.epochs_wanted && summary_.stopped_by.empty()) {
    shuffle();
    const std::int64_t end = minibatches_of_epoch();
    std::int64_t next = next_checkpoint();
    for (; next < end && summary_.stopped_by.empty(); next = next_checkpoint()) {
      train_until(next);
      if (summary_.stopped_by.empty()) write_checkpoint();
    }
    if (summary_.stopped_by.empty()) train_until(end);
    if (summary_.stopped_by.empty()) close_epoch();
    if (summary_.stopped_by.empty() && next == end) write_checkpoint();
  }
  if (summary_.stopped_by != kDiverged && !saved_ && at_position_) write_checkpoint();
  note_expectations();
}

void TrainingRun::shuffle() {
  std::iota(order_.begin(), order_.end(), 0u);
  Random(options_.seed, kOrderStream + static_cast<std::uint64_t>(epoch_)).shuffle(order_);
}

// In mini-batches of this epoch; behind its end where none is due in it.
std::int64_t TrainingRun::next_checkpoint() const {
  const std::int64_t of_epoch = minibatches_of_epoch();
  if (!options_.checkpoint_every) return of_epoch;
  const std::int64_t before = (epoch_ - 1) * of_epoch, every = *options_.checkpoint_every;
  const std::int64_t done = (static_cast<std::int64_t>(epoch_tally_.samples) + summary_.batch - 1) / summary_.batch;
  std::int64_t next = ((before + done) / every + 1) * every - before;
  if (options_.consistency == Consistency::bsp && next < of_epoch) {
    const auto step = static_cast<std::int64_t>(ranks_.replicas());
    next = std::min((next + step - 1) / step * step, of_epoch);
  }
  return next;
}

void TrainingRun::train_until(std::int64_t minibatch) {
  const std::size_t samples =
      std::min(order_.size(), static_cast<std::size_t>(minibatch) * static_cast<std::size_t>(summary_.batch));
  if (epoch_tally_.samples < samples) train_pass(samples);
}

// From where the epoch is to so many samples of it.
void TrainingRun::train_pass(std::size_t samples) {
  const Tally before = epoch_tally_;
  const std::uint64_t minibatches_before = summary_.minibatches;
  const Part part = ranks_.begin(order_, epoch_tally_.samples, samples);
  others_samples_ = samples - epoch_tally_.samples - part.samples().size();
  DataSource source = train_.source();
  source.seed = options_.seed;
  source.epoch = static_cast<std::uint32_t>(epoch_);
  Pass pass{.kind = GroupKind::train,
            .data = source,
            .order = part.samples(),
            .step = [&](std::size_t n) { return step(part, n); },
            .balance = options_.balance,
            .round = options_.round,
            .record = [this](const MinibatchResult& m) { return record(m); },
            .may_begin = [this] { return ranks_.may_begin(); }};
  if (ranks_.gradient_sum()) pass.common = {part.stretches(), [&part](std::size_t n) { return part.in_stretch(n); }};
  saved_ = false;
  reset_cpu_busy_seconds();
  take_traffic();  // what came before is not training's
  const double start = now();
  epoch_start_ = start - epoch_seconds_;
  interval_start_ = start - interval_seconds_;
  trainer_.run(pass, stop_wanted, [this] { tick(); });
  ranks_.finish();
  const double end = now();
  epoch_seconds_ += end - start;
  interval_seconds_ = end - interval_start_;

  summary_.wall_seconds += end - start;
  for (WorkerSummary& w : summary_.workers)
    if (w.here && w.kind == "cpu") w.busy_seconds += cpu_busy_seconds(w.id);
  add_traffic(summary_.transfers, take_traffic());
  note_expectations();
  add_up(before, minibatches_before);
  summary_.train_loss = epoch_tally_.mean_loss();
  const std::vector<Round> rounds = policy_report(0).rounds;
  summary_.rounds.insert(summary_.rounds.end(), rounds.begin(), rounds.end());
  flush_intervals();
  note_signal();
  if (diverged_) summary_.stopped_by = kDiverged;
  at_position_ = epoch_tally_.samples == samples || !ranks_.asynchronous();
}

// What all ranks have done since then, in place of what this one has.
void TrainingRun::add_up(const Tally& before, std::uint64_t minibatches_before) {
  const Job& job = ranks_.job();
  if (job.alone()) return;
  const Tally own = epoch_tally_ - before;
  const std::vector<double> sums =
      job.sum({static_cast<double>(own.minibatches), static_cast<double>(own.samples), static_cast<double>(own.correct),
               static_cast<double>(own.staleness), own.loss, diverged_ ? 1.0 : 0.0});
  const Tally all{static_cast<std::uint64_t>(sums[0]), static_cast<std::uint64_t>(sums[1]),
                  static_cast<std::uint64_t>(sums[2]), static_cast<std::uint64_t>(sums[3]), sums[4]};
  epoch_tally_ = before + all;
  diverged_ = sums[5] > 0;
  summary_.minibatches = minibatches_before + all.minibatches;
  summary_.samples += all.samples - own.samples;

  summary_.ranks.resize(std::max(summary_.ranks.size(), static_cast<std::size_t>(job.ranks())));
  RankSummary& rank = summary_.ranks[static_cast<std::size_t>(job.rank())];
  rank.host = host_name();
  rank.minibatches += own.minibatches;
  rank.samples += own.samples;
  rank.rounds += ranks_.rounds();
  rank.bytes_sent += bytes_sent() - sent_before_;
  sent_before_ = bytes_sent();
  rank.behind.merge(ranks_.behind());
  const nlohmann::json said = {{"rank", rank}, {"workers", summary_.workers_here()}};
  const std::vector<std::string> by_rank = job.gather(said.dump());
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    if (r == static_cast<std::size_t>(job.rank())) continue;
    const nlohmann::json theirs = nlohmann::json::parse(by_rank[r]);
    theirs.at("rank").get_to(summary_.ranks[r]);
    for (auto worker : theirs.at("workers").get<std::vector<WorkerSummary>>()) {
      worker.here = false;
      summary_.put(worker);
    }
  }
}

void TrainingRun::note_expectations() {
  for (WorkerSummary& w : summary_.workers) {
    if (!w.here) continue;
    const double seconds = prorata_expected_seconds(0, w.id, static_cast<std::uint32_t>(GroupKind::train),
                                                    static_cast<std::uint32_t>(summary_.batch));
    if (seconds > 0) w.expected_samples_per_second = summary_.batch / seconds;
  }
}

// On all ranks at once: the signal of any.
void TrainingRun::note_signal() {
  const std::vector<double> signals = ranks_.job().gather(static_cast<double>(StopSignal::caught()));
  const int signal = static_cast<int>(*std::ranges::max_element(signals));
  if (signal != 0) summary_.stopped_by = signal == SIGINT ? "SIGINT" : "SIGTERM";
}

UpdateStep TrainingRun::step(const Part& part, std::size_t sample) const {
  const auto minibatch = static_cast<std::int64_t>(part.progress(sample)) / summary_.batch;
  const double rate = learning_rate_.at((epoch_ - 1) * minibatches_of_epoch() + minibatch) * ranks_.rate_factor();
  return {.learning_rate = static_cast<float>(rate),
          .momentum = static_cast<float>(summary_.effective_momentum),
          .weight_decay = static_cast<float>(summary_.rule.weight_decay),
          .first_sample = static_cast<std::uint64_t>(epoch_ - 1) * order_.size() + part.place(sample)};
}

// Stopped within its evaluation it stays open: a run that goes on from there begins with that.
void TrainingRun::close_epoch() {
  summary_.epochs = epoch_;
  const Score test = ranks_.evaluate(trainer_, data_.test, stop_wanted);
  note_signal();
  if (!test.complete) return;
  summary_.tested = true;
  summary_.test_loss = test.loss;
  summary_.test_accuracy = test.accuracy;
  auto line = metrics_line("epoch", epoch_, epoch_tally_, epoch_seconds_);
  line["test_loss"] = std::isfinite(test.loss) ? nlohmann::ordered_json(test.loss) : nullptr;
  line["test_accuracy"] = test.accuracy;
  out_.append_metrics(line);
  progress_.clear();
  char text[200];
  std::snprintf(text, sizeof(text), "epoch %d/%d  loss %.4f  test accuracy %.4f  %.0f samples/s  staleness %.2f",
                epoch_, summary_.epochs_wanted, epoch_tally_.mean_loss(), test.accuracy,
                static_cast<double>(epoch_tally_.samples) / epoch_seconds_, epoch_tally_.mean_staleness());
  log_info(text);
  ++epoch_;
  epoch_tally_ = interval_ = shown_ = {};
  epoch_seconds_ = interval_seconds_ = 0;
  saved_ = false;
}

// Nothing is in flight. What a checkpoint has is to be good: with parameters that are not finite training has diverged.
void TrainingRun::write_checkpoint() {
  if (!all_finite(network_)) {
    summary_.stopped_by = kDiverged;
    return;
  }
  std::vector<std::uint64_t> updates;
  for (std::size_t i = 0; i < network_.depth(); ++i)
    updates.push_back(network_.parameters(i) ? network_.parameters(i)->version : 0);
  nlohmann::json state = base_;
  state["position"] = {{"epoch", epoch_},
                       {"epoch_tally", epoch_tally_},
                       {"epoch_seconds", epoch_seconds_},
                       {"interval_tally", interval_},
                       {"interval_seconds", interval_seconds_},
                       {"updates", updates},
                       {"metrics_bytes", out_.sync_metrics()},
                       {"summary", summary_.counts()}};
  if (ranks_.job().first()) checkpoints_.write(network_, network_file_, std::move(state));
  saved_ = true;
}

// Called by one worker at a time.
bool TrainingRun::record(const MinibatchResult& m) {
  const std::lock_guard lock(mutex_);
  summary_.add(m);
  ranks_.trained(m);
  epoch_tally_.add(m);
  interval_.add(m);
  if (interval_.minibatches == kMinibatchesPerInterval) {
    intervals_.push_back(metrics_line("interval", epoch_, interval_, m.finished - interval_start_));
    interval_ = {};
    interval_start_ = m.finished;
  }
  diverged_ |= !std::isfinite(m.loss);
  return !diverged_;
}

void TrainingRun::tick() {
  flush_intervals();
  const std::lock_guard lock(mutex_);
  ProgressState s{};
  s.epoch = epoch_;
  s.epochs = summary_.epochs_wanted;
  s.minibatches = epoch_tally_.minibatches;
  s.minibatches_of_epoch =
      static_cast<std::size_t>(minibatches_of_epoch()) - others_samples_ / static_cast<std::size_t>(summary_.batch);
  const double samples = static_cast<double>(epoch_tally_.samples - shown_.samples);
  s.loss = samples > 0 ? (epoch_tally_.loss - shown_.loss) / samples : 0;
  s.accuracy = samples > 0 ? static_cast<double>(epoch_tally_.correct - shown_.correct) / samples : 0;
  s.samples_per_second = static_cast<double>(epoch_tally_.samples) / (now() - epoch_start_);
  s.staleness = epoch_tally_.mean_staleness();
  for (const WorkerSummary& w : summary_.workers)
    s.shares.push_back(static_cast<double>(w.minibatches) /
                       static_cast<double>(std::max<std::uint64_t>(1, summary_.minibatches)));
  shown_ = epoch_tally_;
  progress_.show(s);
}

void TrainingRun::flush_intervals() {
  std::vector<nlohmann::ordered_json> lines;
  {
    const std::lock_guard lock(mutex_);
    lines.swap(intervals_);
  }
  for (const auto& line : lines) out_.append_metrics(line);
}

}  // namespace prorata
