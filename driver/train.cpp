// `prorata train`: the main job. One screen of it is run_train(); the rest are its steps.
#include "codelets/backend/cpu_worker.h"
#include "codelets/codelet.h"
#include "driver/checkpoint.h"
#include "driver/cluster/agreement.h"
#include "driver/cluster/job.h"
#include "driver/cluster/node_share.h"
#include "driver/data/dataset.h"
#include "driver/device_check.h"
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"
#include "driver/report/run_directory.h"
#include "driver/report/summary.h"
#include "driver/resumption.h"
#include "driver/runtime.h"
#include "driver/speed/check.h"
#include "driver/speed/training_models.h"
#include "driver/stop_signal.h"
#include "driver/training_run.h"
#include "driver/update_rule.h"
#include "models/errors.h"
#include "models/network.h"
#include "models/parameter_file.h"
#include "scheduler/policy.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <optional>
#include <variant>

namespace prorata {
namespace {

// The options that the user left open are the network's.
Summary describe_run(const TrainOptions& o, const NetworkSpec& spec, const Dataset& data, const Runtime& runtime,
                     const Job& job) {
  Summary s(job.rank());
  s.model = spec.name;
  s.dataset = o.data.dataset;
  s.seed = o.seed;
  s.preprocessing = o.augmentation;
  s.preprocessing.normalize = o.data.preparation.normalize;
  if (o.data.dataset == kHyperspectral) {
    s.train_per_class = o.data.preparation.train_per_class.value_or(kTrainPerClass);
    s.split_seed = o.data.preparation.split_seed.value_or(kSplitSeed);
  }
  if (o.init) s.init = o.init->string();
  s.epochs_wanted = o.epochs.value_or(spec.defaults.epochs);
  s.accumulate = o.accumulate;
  s.batch = o.batch.value_or(spec.defaults.batch) * o.accumulate;
  const auto minibatches_of_epoch = static_cast<std::int64_t>(data.train.size() + s.batch - 1) / s.batch;
  s.lr_warmup = o.lr_warmup.value_or(default_warmup(minibatches_of_epoch * s.epochs_wanted));
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
  if (o.share == PRORATA_SIZE && o.consistency == Consistency::bsp && !job.alone())
    throw InputError(
        "--share size and --consistency bsp do not go together on several ranks: their steps must be alike");
  const bool normalises = std::any_of(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& layer) {
    return std::holds_alternative<BatchNormSpec>(layer.type);
  });
  if (o.accumulate > 1 && o.consistency == Consistency::bsp && normalises)
    throw InputError(
        "--accumulate does not go with --consistency bsp where the network has a batch_norm, whose running "
        "statistics move once a mini-batch of a step; --round accumulates over more mini-batches");
  if (o.staleness && o.consistency != Consistency::ssp)
    throw InputError("--staleness is the bound of --consistency ssp; with " + s.consistency + " there is none");
  if (o.replicas && o.consistency == Consistency::bsp)
    throw InputError("--replicas does not go with --consistency bsp; --round says how many mini-batches make a step");
  if (o.consistency == Consistency::ssp) s.staleness_bound = o.staleness.value_or(starpu_worker_get_count());
  if (o.dana.value_or(false) && o.consistency == Consistency::bsp)
    throw InputError("--dana does not go with --consistency bsp, where no gradient is stale");
  s.staleness_aware_lr = o.staleness_aware_lr;
  s.delay_compensation = o.delay_compensation;
  s.scheduler = runtime.scheduler();
  s.tf32 = runtime.tf32();
  s.replicas = o.replicas.value_or(
      static_cast<std::uint32_t>(default_replicas(o.share == PRORATA_SIZE || o.consistency == Consistency::bsp)));
  if (o.consistency == Consistency::bsp && o.round) s.replicas = o.round;
  const std::size_t overlap = overlapping(o.consistency, s.replicas, s.staleness_bound.value_or(0));
  const bool stale = o.consistency != Consistency::bsp && (overlap > 1 || !job.alone());
  s.momentum_correction = o.momentum_correction;
  s.effective_momentum = o.momentum_correction ? corrected_momentum(s.rule.momentum, overlap) : s.rule.momentum;
  s.dana = o.dana.value_or(stale && s.rule.momentum > 0 && !o.momentum_correction);
  s.deterministic = o.deterministic.value_or(starpu_worker_get_count() == 1 || o.consistency == Consistency::bsp);
  for (WorkerSummary& w : s.workers)
    if (w.kind == "cpu") w.slowdown = cpu_slowdown(w.id);
  return s;
}

void check_resume(const TrainOptions& o) {
  if (!o.resume) return;
  if (!o.out) throw InputError("--resume needs --out DIR: the run directory to go on with");
  if (o.overwrite) throw InputError("--resume goes on with what --overwrite would remove; give one of them");
  if (o.init) throw InputError("--resume starts from a checkpoint, --init from other parameters; give one of them");
}

int exit_code_of(const Summary& summary) {
  if (summary.stopped_by.empty()) return exit_done;
  if (summary.stopped_by == TrainingRun::kDiverged) return exit_diverged;
  return 128 + (summary.stopped_by == "SIGINT" ? SIGINT : SIGTERM);
}

void tell_end(const Summary& summary, const RunDirectory& out, const Checkpoints& checkpoints) {
  if (summary.stopped_by == TrainingRun::kDiverged)
    log_error("training diverged: the loss is not finite in epoch " + std::to_string(summary.epochs + 1) +
              "; try a smaller --lr. " +
              (std::filesystem::exists(checkpoints.last())
                   ? "The last good checkpoint is kept: " + (checkpoints.last() / "model.safetensors").string()
                   : std::string("It did so before the first checkpoint was written, so there is none.")));
  else if (!summary.stopped_by.empty())
    log_info("stopped by " + summary.stopped_by + "; what is done so far is in " + out.path().string() +
             checkpoints.going_on());
}

// The others are heard only where something is wrong.
void let_rank_0_talk(TrainOptions& o) {
  o.common.quiet = true;
  o.common.json = false;
  o.progress = "off";
  set_log_level(LogLevel::quiet);
}

// One that is there.
void open_directory(std::optional<RunDirectory>& directory, const std::filesystem::path& path, const Job& job) {
  if (job.first())
    directory.emplace(path);
  else
    directory.emplace(WrittenElsewhere{path});
}

// A new one: rank 0 makes it.
void make_directory(std::optional<RunDirectory>& directory, const TrainOptions& o, const std::string& model,
                    const Job& job) {
  if (job.first()) directory.emplace(o.out, model, o.overwrite);
  const std::string path = job.gather(job.first() ? directory->path().string() : "").front();
  if (!job.first()) directory.emplace(WrittenElsewhere{path});
}

// All of it, on each rank of the job.
int train(TrainOptions& o, const Job& job) {
  if (!job.first()) let_rank_0_talk(o);
  check_resume(o);
  std::optional<RunDirectory> directory;
  std::optional<Checkpoint> begun;
  if (o.resume) {
    open_directory(directory, *o.out, job);  // before anything in it is read, for another run may be writing there
    begun = read_checkpoint(directory->path());
    take_options(*o.app, *begun);
  }
  const std::filesystem::path network_file = begun ? begun->network() : find_network(o.data.model);
  const NetworkAndData loaded =
      load_network_and_data(network_file, o.data.dataset, o.data.data, o.seed, o.data.preparation);
  const NetworkSpec& spec = loaded.network;
  const Dataset& data = loaded.data;
  const std::string network_file_text = network_text(begun, *o.app, o.data.model, data);
  share_node(job);
  std::optional<Runtime> started;
  // In turns: StarPU aborts on files of the bus that another one on this machine has half written.
  for (int turn = 0; turn < job.ranks(); ++turn) {
    if (turn == job.rank())
      started.emplace(RuntimeOptions{.verbose = o.common.verbose,
                                     .slowdown = o.slowdown.empty() ? std::vector<std::pair<int, double>>()
                                                                    : parse_slowdown(o.slowdown, job.rank()),
                                     .tf32 = o.tf32,
                                     .unlike_cpus = [&] { return calibrated_unlike(spec.name); }});
    job.gather("");
  }
  const Runtime& runtime = *started;
  Summary summary = describe_run(o, spec, data, runtime, job);
  const nlohmann::json base = beginnings(*o.app, o, summary, data);
  must_agree(job, base, o, summary.epochs_wanted, network_file_text);
  if (begun) refuse_changes(base, *begun);
  use_first_implementations(summary.deterministic);
  Network network(spec, o.seed, summary.rule.optimizer);
  if (o.init) read_parameters(network, find_parameters(*o.init));
  if (begun) {
    read_parameters(network, begun->parameters());
    read_optimizer_state(network, begun->optimizer());
  }
  if (!directory) make_directory(directory, o, spec.name, job);
  RunDirectory& out = *directory;
  Checkpoints checkpoints(out.path(), o.keep_checkpoints);
  const StopSignal stop;

  summary.parameters = network.parameter_count();
  leave_out_devices_without_room(network, data, summary.micro_batch(), summary.preprocessing);
  check_models(network, summary.micro_batch());
  log_info("training " + spec.name + " (" + std::to_string(summary.parameters) + " parameters) on " + data.name + " (" +
           std::to_string(data.train.size()) + " samples) with " + std::to_string(summary.workers.size()) +
           " worker(s)" + (job.alone() ? "" : " on each of " + std::to_string(job.ranks()) + " ranks") +
           ", scheduler " + summary.scheduler + ", balance " + summary.balance);
  TrainingRun run(job, o, network, data, summary, out, checkpoints, network_file_text, base);
  if (begun) {
    run.go_on_from(*begun);
    log_info("going on from " + begun->folder.string() + ": " + std::to_string(summary.samples) + " samples are done");
  }
  job.guard([&] { run.run(); }, [&] { return checkpoints.going_on(); });

  if (job.first()) {
    out.write_summary(summary.json());
    if (o.common.json)
      std::cout << summary.json().dump(2) << std::endl;
    else
      std::cout << summary.text() << "  run directory  " << out.path().string() << std::endl;
    tell_end(summary, out, checkpoints);
  }
  return exit_code_of(summary);
}

}  // namespace

int run_train(TrainOptions& o) {
  const Job job;
  return job.run([&] { return train(o, job); });
}

}  // namespace prorata
