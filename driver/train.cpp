// `prorata train`: the main job. One screen of it is run_train(); the rest are its steps.
#include "codelets/backend/cpu_worker.h"
#include "codelets/codelet.h"
#include "driver/data/dataset.h"
#include "driver/device_check.h"
#include "driver/evaluation.h"
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"
#include "driver/report/progress.h"
#include "driver/report/run_directory.h"
#include "driver/report/summary.h"
#include "driver/runtime.h"
#include "driver/speed/check.h"
#include "driver/speed/training_models.h"
#include "driver/stop_signal.h"
#include "driver/trainer.h"
#include "driver/update_rule.h"
#include "models/errors.h"
#include "models/network.h"
#include "models/parameter_file.h"
#include "scheduler/policy.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iostream>
#include <numeric>

namespace prorata {
namespace {

constexpr std::uint64_t kOrderStream = std::uint64_t{1} << 32;  // of Random; plus the epoch
constexpr std::uint64_t kMinibatchesPerInterval = 100;          // of a line in metrics.jsonl

// Sums over some mini-batches.
struct Tally {
  std::uint64_t minibatches = 0, samples = 0, correct = 0, staleness = 0;
  double loss = 0;

  void add(const MinibatchResult& m) {
    ++minibatches;
    samples += m.samples;
    correct += m.correct;
    staleness += m.staleness;
    loss += m.loss;
  }
  double mean_loss() const { return samples ? loss / static_cast<double>(samples) : 0; }
  double accuracy() const { return samples ? static_cast<double>(correct) / static_cast<double>(samples) : 0; }
  double mean_staleness() const {
    return minibatches ? static_cast<double>(staleness) / static_cast<double>(minibatches) : 0;
  }
};

nlohmann::ordered_json metrics_line(const char* event, int epoch, const Tally& t, double seconds) {
  return {{"event", event},
          {"epoch", epoch},
          {"minibatches", t.minibatches},
          {"samples", t.samples},
          {"seconds", seconds},
          {"samples_per_second", seconds > 0 ? static_cast<double>(t.samples) / seconds : 0},
          {"train_loss", std::isfinite(t.mean_loss()) ? nlohmann::ordered_json(t.mean_loss()) : nullptr},
          {"train_accuracy", t.accuracy()},
          {"staleness_mean", t.mean_staleness()}};
}

// The options that the user left open are the network's.
Summary describe_run(const TrainOptions& o, const NetworkSpec& spec, const Runtime& runtime) {
  Summary s;
  s.model = spec.name;
  s.dataset = o.data.dataset;
  s.seed = o.seed;
  s.preprocessing = o.augmentation;
  s.preprocessing.normalize = o.data.preparation.normalize;
  if (o.data.dataset == kHyperspectral) {
    s.train_per_class = o.data.preparation.train_per_class.value_or(kTrainPerClass);
    s.split_seed = o.data.preparation.split_seed.value_or(kSplitSeed);
  }
  s.epochs_wanted = o.epochs.value_or(spec.defaults.epochs);
  s.batch = o.batch.value_or(spec.defaults.batch);
  s.rule = choose_update_rule(o, spec.defaults);
  s.balance = to_string(o.balance);
  s.share = to_string(o.share);
  s.consistency = to_string(o.consistency);
  if (o.share == PRORATA_SIZE &&
      (o.balance != PRORATA_PRORATA || runtime.scheduler() != starpu_prorata_policy.policy_name))
    throw InputError(
        "--share size needs --balance prorata and STARPU_SCHED=prorata: it is that policy which gives each worker a "
        "size "
        "of its own");
  if (o.share == PRORATA_SIZE && o.replicas)
    throw InputError("--replicas does not go with --share size: each worker has one mini-batch in flight");
  if (o.share == PRORATA_SIZE && o.consistency == Consistency::bsp && o.round)
    throw InputError("--round does not go with --share size and --consistency bsp: a step is one mini-batch a worker");
  if (o.staleness && o.consistency != Consistency::ssp)
    throw InputError("--staleness is the bound of --consistency ssp; with " + s.consistency + " there is none");
  if (o.replicas && o.consistency == Consistency::bsp)
    throw InputError("--replicas does not go with --consistency bsp; --round says how many mini-batches make a step");
  if (o.consistency == Consistency::ssp) s.staleness_bound = o.staleness.value_or(starpu_worker_get_count());
  s.staleness_aware_lr = o.staleness_aware_lr;
  s.delay_compensation = o.delay_compensation;
  s.scheduler = runtime.scheduler();
  s.tf32 = runtime.tf32();
  s.replicas = o.replicas.value_or(
      static_cast<std::uint32_t>(default_replicas(o.share == PRORATA_SIZE || o.consistency == Consistency::bsp)));
  if (o.consistency == Consistency::bsp && o.round) s.replicas = o.round;
  s.deterministic = o.deterministic.value_or(starpu_worker_get_count() == 1 || o.consistency == Consistency::bsp);
  for (WorkerSummary& w : s.workers)
    if (w.kind == "cpu") w.slowdown = cpu_slowdown(w.id);
  return s;
}

class TrainingRun {
 public:
  TrainingRun(const TrainOptions& options, Network& network, const Dataset& data, Summary& summary, RunDirectory& out)
      : options_(options),
        data_(data),
        summary_(summary),
        out_(out),
        network_(network),
        trainer_(network, {.batch = summary.batch,
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
    try_devices(network_, train_.source(), std::min(summary_.batch, trainer_.replica(0).batch()),
                summary_.preprocessing);
    price();
    const std::int64_t all = minibatches_of_epoch() * summary.epochs_wanted;
    summary.lr_warmup = options.lr_warmup.value_or(default_warmup(all));
    learning_rate_ = {summary.rule.learning_rate,
                      summary.rule.lr_schedule,
                      summary.lr_warmup,
                      all,
                      summary.rule.lr_step_epochs * minibatches_of_epoch(),
                      summary.rule.lr_gamma};
    // Adam has no momentum of the kind that the theory is about. With two, what is lost by the smaller steps is more
    // than what asynchrony harms (docs/staleness.md).
    summary.momentum_correction =
        options.momentum_correction.value_or(!is_adam(summary.rule.optimizer.kind) && trainer_.overlapping() > 2);
    summary.effective_momentum = summary.momentum_correction
                                     ? corrected_momentum(summary.rule.momentum, trainer_.overlapping())
                                     : summary.rule.momentum;
  }

  void run() {
    for (int epoch = 1; epoch <= summary_.epochs_wanted && summary_.stopped_by.empty(); ++epoch) {
      train_epoch(epoch);
      if (summary_.stopped_by.empty()) close_epoch(epoch);
    }
    if (summary_.stopped_by != kDiverged) write_parameters(network_, out_.checkpoint());
  }

  static constexpr const char* kDiverged = "divergence";

 private:
  // What the models know before anything has run.
  void price() {
    Replica& replica = trainer_.replica(0);
    std::vector<std::int32_t> batches{std::min(summary_.batch, replica.batch())};
    if (options_.share == PRORATA_SIZE)
      for (std::int32_t b : default_batches())
        if (b <= replica.batch()) batches.push_back(b);
    replica.price_training(train_.source(), merge_batches({}, batches));
  }

  void train_epoch(int epoch) {
    epoch_ = epoch;
    epoch_tally_ = {};
    interval_ = {};
    shown_ = {};
    std::iota(order_.begin(), order_.end(), 0u);
    Random(options_.seed, kOrderStream + static_cast<std::uint64_t>(epoch)).shuffle(order_);

    DataSource source = train_.source();
    source.seed = options_.seed;
    source.epoch = static_cast<std::uint32_t>(epoch);
    const Pass pass{.kind = GroupKind::train,
                    .data = source,
                    .order = order_,
                    .step = [this](std::size_t n) { return step(n); },
                    .first_sample = static_cast<std::uint64_t>(epoch_ - 1) * order_.size(),
                    .balance = options_.balance,
                    .round = options_.round,
                    .record = [this](const MinibatchResult& m) { return record(m); }};
    reset_cpu_busy_seconds();
    take_traffic();  // what came before is not training's
    interval_start_ = epoch_start_ = starpu_timing_now() * 1e-6;
    trainer_.run(
        pass, [] { return StopSignal::caught() != 0; }, [this] { tick(); });
    epoch_seconds_ = starpu_timing_now() * 1e-6 - epoch_start_;

    summary_.wall_seconds += epoch_seconds_;
    for (WorkerSummary& w : summary_.workers)
      if (w.kind == "cpu") w.busy_seconds += cpu_busy_seconds(w.id);
    add_traffic(summary_.transfers, take_traffic());
    summary_.train_loss = epoch_tally_.mean_loss();
    const std::vector<Round> rounds = policy_report(0).rounds;
    summary_.rounds.insert(summary_.rounds.end(), rounds.begin(), rounds.end());
    flush_intervals();
    note_signal();
    if (diverged_) summary_.stopped_by = kDiverged;
  }

  void note_signal() {
    if (const int signal = StopSignal::caught(); signal != 0)
      summary_.stopped_by = signal == SIGINT ? "SIGINT" : "SIGTERM";
  }

  std::int64_t minibatches_of_epoch() const { return (std::ssize(order_) + summary_.batch - 1) / summary_.batch; }

  // The step of the n-th mini-batch of this epoch.
  UpdateStep step(std::size_t n) const {
    const double rate = learning_rate_.at((epoch_ - 1) * minibatches_of_epoch() + static_cast<std::int64_t>(n));
    return {static_cast<float>(rate), static_cast<float>(summary_.effective_momentum),
            static_cast<float>(summary_.rule.weight_decay)};
  }

  void close_epoch(int epoch) {
    summary_.epochs = epoch;
    const Score test = evaluate(trainer_, data_.test, [] { return StopSignal::caught() != 0; });
    note_signal();
    if (!test.complete) return;
    summary_.tested = true;
    summary_.test_loss = test.loss;
    summary_.test_accuracy = test.accuracy;
    auto line = metrics_line("epoch", epoch, epoch_tally_, epoch_seconds_);
    line["test_loss"] = std::isfinite(test.loss) ? nlohmann::ordered_json(test.loss) : nullptr;
    line["test_accuracy"] = test.accuracy;
    out_.append_metrics(line);
    progress_.clear();
    char text[200];
    std::snprintf(text, sizeof(text), "epoch %d/%d  loss %.4f  test accuracy %.4f  %.0f samples/s  staleness %.2f",
                  epoch, summary_.epochs_wanted, epoch_tally_.mean_loss(), test.accuracy,
                  static_cast<double>(epoch_tally_.samples) / epoch_seconds_, epoch_tally_.mean_staleness());
    log_info(text);
    if (epoch < summary_.epochs_wanted) write_parameters(network_, out_.checkpoint());
  }

  // Called by one worker at a time.
  bool record(const MinibatchResult& m) {
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

  void tick() {
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
    s.samples_per_second = static_cast<double>(epoch_tally_.samples) / (starpu_timing_now() * 1e-6 - epoch_start_);
    s.staleness = epoch_tally_.mean_staleness();
    for (const WorkerSummary& w : summary_.workers)
      s.shares.push_back(static_cast<double>(w.minibatches) /
                         static_cast<double>(std::max<std::uint64_t>(1, summary_.minibatches)));
    shown_ = epoch_tally_;
    progress_.show(s);
  }

  void flush_intervals() {
    std::vector<nlohmann::ordered_json> lines;
    {
      const std::lock_guard lock(mutex_);
      lines.swap(intervals_);
    }
    for (const auto& line : lines) out_.append_metrics(line);
  }

  const TrainOptions& options_;
  const Dataset& data_;
  Summary& summary_;
  RunDirectory& out_;
  Network& network_;
  Trainer trainer_;
  SampleHandles train_;
  Progress progress_;
  std::vector<std::uint32_t> order_;
  LearningRate learning_rate_{};

  int epoch_ = 0;
  double epoch_start_ = 0, epoch_seconds_ = 0;
  std::mutex mutex_;  // what follows, and the summary while a pass runs
  Tally epoch_tally_, interval_, shown_;
  double interval_start_ = 0;
  std::vector<nlohmann::ordered_json> intervals_;
  bool diverged_ = false;
};

int exit_code_of(const Summary& summary, const RunDirectory& out) {
  if (summary.stopped_by == TrainingRun::kDiverged) {
    log_error("training diverged: the loss is not finite in epoch " + std::to_string(summary.epochs + 1) +
              "; try a smaller --lr. " +
              (summary.epochs > 0 ? "The checkpoint of epoch " + std::to_string(summary.epochs) +
                                        " is kept: " + out.checkpoint().string()
                                  : std::string("No epoch was completed, so there is no checkpoint.")));
    return exit_diverged;
  }
  if (summary.stopped_by.empty()) return exit_done;
  log_info("stopped by " + summary.stopped_by + "; what is done so far is in " + out.path().string());
  return 128 + (summary.stopped_by == "SIGINT" ? SIGINT : SIGTERM);
}

}  // namespace

int run_train(const TrainOptions& o) {
  const NetworkSpec spec = read_network_spec(find_network(o.data.model));
  const Dataset data = load_dataset(o.data.dataset, o.data.data, spec, o.seed, o.data.preparation);
  const Runtime runtime({.verbose = o.common.verbose, .slowdown = o.slowdown, .tf32 = o.tf32, .unlike_cpus = [&] {
                           return calibrated_unlike(spec.name);
                         }});
  Summary summary = describe_run(o, spec, runtime);
  RunDirectory out(o.out, spec.name, o.overwrite);
  const StopSignal stop;
  use_first_implementations(summary.deterministic);

  Network network(spec, o.seed, summary.rule.optimizer);
  summary.parameters = network.parameter_count();
  leave_out_devices_without_room(network, data, summary.batch, summary.preprocessing);
  check_models(network, summary.batch);
  log_info("training " + spec.name + " (" + std::to_string(summary.parameters) + " parameters) on " + data.name + " (" +
           std::to_string(data.train.size()) + " samples) with " + std::to_string(summary.workers.size()) +
           " worker(s), scheduler " + summary.scheduler + ", balance " + summary.balance);
  TrainingRun(o, network, data, summary, out).run();

  for (WorkerSummary& w : summary.workers) {
    const double seconds = prorata_expected_seconds(0, w.id, static_cast<std::uint32_t>(GroupKind::train),
                                                    static_cast<std::uint32_t>(summary.batch));
    if (seconds > 0) w.expected_samples_per_second = summary.batch / seconds;
  }
  out.write_summary(summary.json());
  if (o.common.json)
    std::cout << summary.json().dump(2) << std::endl;
  else
    std::cout << summary.text() << "  run directory  " << out.path().string() << std::endl;
  return exit_code_of(summary, out);
}

}  // namespace prorata
