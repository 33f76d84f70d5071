#include "driver/training_run.h"

#include "codelets/backend/cpu_worker.h"
#include "driver/device_check.h"
#include "driver/report/log.h"
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

TrainingRun::TrainingRun(const TrainOptions& options, Network& network, const Dataset& data, Summary& summary,
                         RunDirectory& out, Checkpoints& checkpoints, std::string network_file, nlohmann::json base)
    : options_(options),
      data_(data),
      summary_(summary),
      out_(out),
      checkpoints_(checkpoints),
      network_file_(std::move(network_file)),
      base_(std::move(base)),
      network_(network),
      trainer_(network, {.batch = {summary.batch, summary.micro_batch()},
                         .replicas = summary.replicas,
                         .consistency = options.consistency,
                         .staleness = summary.staleness_bound.value_or(0),
                         .remedies = {.scale_by_staleness = options.staleness_aware_lr,
                                      .compensation = static_cast<float>(options.delay_compensation)},
                         .share = options.share,
                         .preprocessing = summary.preprocessing}),
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
  // Adam has no momentum of the kind that the theory is about. With two, what is lost by the smaller steps is more
  // than what asynchrony harms (docs/staleness.md).
  summary.momentum_correction =
      options.momentum_correction.value_or(!is_adam(rule.optimizer.kind) && trainer_.overlapping() > 2);
  summary.effective_momentum =
      summary.momentum_correction ? corrected_momentum(rule.momentum, trainer_.overlapping()) : rule.momentum;
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
  if (summary_.stopped_by != kDiverged && !saved_) write_checkpoint();
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
    const auto step = static_cast<std::int64_t>(trainer_.replicas());
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
  DataSource source = train_.source();
  source.seed = options_.seed;
  source.epoch = static_cast<std::uint32_t>(epoch_);
  const Pass pass{.kind = GroupKind::train,
                  .data = source,
                  .order = std::span(order_).first(samples),
                  .step = [this](std::size_t n) { return step(n); },
                  .first_sample = static_cast<std::uint64_t>(epoch_ - 1) * order_.size(),
                  .balance = options_.balance,
                  .round = options_.round,
                  .record = [this](const MinibatchResult& m) { return record(m); },
                  .done = epoch_tally_.samples};
  saved_ = false;
  reset_cpu_busy_seconds();
  take_traffic();  // what came before is not training's
  const double start = now();
  epoch_start_ = start - epoch_seconds_;
  interval_start_ = start - interval_seconds_;
  trainer_.run(pass, stop_wanted, [this] { tick(); });
  const double end = now();
  epoch_seconds_ += end - start;
  interval_seconds_ = end - interval_start_;

  summary_.wall_seconds += end - start;
  for (WorkerSummary& w : summary_.workers)
    if (w.here && w.kind == "cpu") w.busy_seconds += cpu_busy_seconds(w.id);
  add_traffic(summary_.transfers, take_traffic());
  summary_.train_loss = epoch_tally_.mean_loss();
  const std::vector<Round> rounds = policy_report(0).rounds;
  summary_.rounds.insert(summary_.rounds.end(), rounds.begin(), rounds.end());
  flush_intervals();
  note_signal();
  if (diverged_) summary_.stopped_by = kDiverged;
}

void TrainingRun::note_signal() {
  if (const int signal = StopSignal::caught(); signal != 0)
    summary_.stopped_by = signal == SIGINT ? "SIGINT" : "SIGTERM";
}

UpdateStep TrainingRun::step(std::size_t minibatch) const {
  const double rate = learning_rate_.at((epoch_ - 1) * minibatches_of_epoch() + static_cast<std::int64_t>(minibatch));
  return {static_cast<float>(rate), static_cast<float>(summary_.effective_momentum),
          static_cast<float>(summary_.rule.weight_decay)};
}

// Stopped within its evaluation it stays open: a run that goes on from there begins with that.
void TrainingRun::close_epoch() {
  summary_.epochs = epoch_;
  const Score test = evaluate(trainer_, data_.test, stop_wanted);
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
  checkpoints_.write(network_, network_file_, std::move(state));
  saved_ = true;
}

// Called by one worker at a time.
bool TrainingRun::record(const MinibatchResult& m) {
  const std::lock_guard lock(mutex_);
  summary_.add(m);
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
  s.minibatches_of_epoch = static_cast<std::size_t>(minibatches_of_epoch());
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
