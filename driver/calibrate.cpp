// `prorata calibrate`: measures the tasks of a network's training and writes them as StarPU's performance models.
//
// What is measured. Whole mini-batches, every task of them in its place, on every worker at the same time, each with a
// replica of its own and the shared parameters between them: caches are as warm, and memory is as busy, as in training.
// A task's time is what StarPU itself would have recorded (its profiling), so a kernel that is slowed down counts as
// slowed. The tasks are pinned to their worker; a codelet's implementations take turns, each for some mini-batches.
//
// How often. In passes over all batch sizes, so that a disturbance hits a few mini-batches of each size rather than all
// of one, and the median leaves it out. The first mini-batch of each turn only warms up. A size is done when the time
// of its mini-batch is known to --precision (the middle half of the measurements, divided by the root of their number),
// or after --repetitions.
//
// A signal ends it between two turns; what is known by then is kept.
#include "codelets/codelet.h"
#include "codelets/gather_batch.h"
#include "codelets/snapshot.h"
#include "driver/data/dataset.h"
#include "driver/evaluation.h"
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"
#include "driver/report/topology.h"
#include "driver/runtime.h"
#include "driver/speed/check.h"
#include "driver/speed/table.h"
#include "driver/stop_signal.h"
#include "models/network.h"
#include "models/random.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>
#include <iostream>
#include <memory>
#include <set>
#include <stdexcept>

namespace prorata {
namespace {

constexpr std::size_t kFewest = 10;       // measurements before a size is done
constexpr std::size_t kFewestIfSlow = 4;  // once it has taken kPatience seconds, and before anything is kept
constexpr double kPatience = 20;          // seconds on one batch size
constexpr int kPerTurn = 4;               // mini-batches that are measured in a turn
constexpr double kUnlike = 1.25;          // workers that share models and differ by more should not
constexpr double kUncertain = 0.05;       // of a mini-batch: the machine was not quiet
constexpr double kTick = 1e-3;            // us: the clock's, for a task that is shorter than it can see
constexpr double kMostAhead = 16;         // mini-batches of a fast worker to one of a slow one

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5)];
}

Measurement summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const double median = quantile(seconds, 0.5);
  return {median, (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / 2 / median,
          static_cast<unsigned>(seconds.size())};
}

// One mini-batch on one worker.
struct MeasuredGroup {
  int worker;
  bool counts;  // else it only warms up
  std::vector<std::uint32_t> indices;
  GatherBatchArgs gather;
  std::unique_ptr<TaskList> tasks;
  std::vector<unsigned> implementations;  // kElsewhere: it does not run on this worker
};
constexpr unsigned kElsewhere = UINT_MAX;

// While it lives no worker begins a task.
struct Paused {
  Paused() { starpu_pause(); }
  ~Paused() { starpu_resume(); }
  Paused(const Paused&) = delete;
  Paused& operator=(const Paused&) = delete;
};

class Calibration {
 public:
  Calibration(const CalibrateOptions& o, Network& network, const Samples& samples, TrainingShapes& shapes,
              std::vector<std::size_t> batches)
      : options_(o),
        shapes_(shapes),
        todo_(std::move(batches)),
        samples_(samples.size()),
        data_(samples),
        random_(1, 0) {
    for (unsigned w = 0; w < starpu_worker_get_count(); ++w)
      replicas_.push_back(
          std::make_unique<Replica>(network, shapes.batches().back(), Overlap::possible, [](Replica&) {}));
    for (int w = 0; w < static_cast<int>(replicas_.size()); ++w)
      for (const TrainingShapes::Task& task : shapes.tasks(0))
        most_implementations_ = std::max(most_implementations_, static_cast<unsigned>(task.implementations(w).size()));
    group_seconds_.assign(replicas_.size(), 0);
    to_twin_.resize(replicas_.size());
    spent_.assign(shapes.batches().size(), 0);
  }

  // False: a signal came before the end.
  bool run() {
    starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
    while (!todo_.empty() && StopSignal::caught() == 0) {
      log_info("measuring " + std::to_string(todo_.size()) + (todo_.size() == 1 ? " batch size" : " batch sizes"));
      for (std::size_t b : todo_) {
        if (StopSignal::caught() != 0) break;
        turn(b);
      }
      std::erase_if(todo_, [&](std::size_t b) { return done(b); });
    }
    starpu_profiling_status_set(STARPU_PROFILING_DISABLE);
    return todo_.empty();
  }

  // Batch sizes whose figures are not to be relied on.
  std::vector<std::int32_t> uncertain() const {
    std::vector<std::int32_t> result;
    for (std::size_t b = 0; b < shapes_.batches().size(); ++b)
      if (spent_[b] > 0 && known(b).uncertainty > std::max(kUncertain, options_.precision))
        result.push_back(shapes_.batches()[b]);
    return result;
  }

  // How much longer than the first worker that shares its models this one takes.
  double to_twin(int worker) const {
    const std::vector<double>& ratios = to_twin_[static_cast<std::size_t>(worker)];
    return ratios.empty() ? 1 : summarize(ratios).seconds;
  }

  std::map<EntryKey, Measurement> results() const {
    std::map<EntryKey, Measurement> results;
    for (const auto& [key, seconds] : seconds_)
      if (seconds.size() >= kFewestIfSlow) results.emplace(key, summarize(seconds));
    return results;
  }

 private:
  void turn(std::size_t b) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::unique_ptr<MeasuredGroup>> groups;
    std::exception_ptr refused;
    try {
      const Paused paused;
      const double slowest = *std::max_element(group_seconds_.begin(), group_seconds_.end());
      for (std::size_t w = 0; w < replicas_.size(); ++w) {
        const double ahead = group_seconds_[w] > 0 ? std::clamp(slowest / group_seconds_[w], 1.0, kMostAhead) : 1;
        const auto measured = static_cast<std::size_t>(ahead * kPerTurn);
        for (unsigned i = 0; i < most_implementations_; ++i)
          for (std::size_t n = 0; n <= measured; ++n) submit(groups, static_cast<int>(w), b, i, n > 0);
      }
    } catch (...) {
      refused = std::current_exception();
    }
    starpu_task_wait_for_all();
    if (refused) std::rethrow_exception(refused);
    rethrow_kernel_error();
    collect(groups, b);
    spent_[b] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void submit(std::vector<std::unique_ptr<MeasuredGroup>>& groups, int worker, std::size_t b, unsigned turn_of,
              bool counts) {
    groups.push_back(std::make_unique<MeasuredGroup>());
    MeasuredGroup& g = *groups.back();
    g.worker = worker;
    g.counts = counts;
    for (std::int32_t i = 0; i < shapes_.batches()[b]; ++i)
      g.indices.push_back(static_cast<std::uint32_t>(random_.uniform() * static_cast<double>(samples_)));
    g.tasks = std::make_unique<TaskList>(
        replicas_[static_cast<std::size_t>(worker)]->training_tasks(data_.source(), g.indices));
    starpu_task* const first = g.tasks->tasks().front();
    g.gather = *static_cast<const GatherBatchArgs*>(first->cl_arg);
    first->cl_arg = &g.gather;
    for (std::size_t p = 0; p < g.tasks->tasks().size(); ++p) {
      starpu_task* const task = g.tasks->tasks()[p];
      const std::size_t choice = shapes_.tasks(b)[p].implementations(worker).size();
      const auto implementation = choice > 0 ? static_cast<unsigned>(turn_of % choice) : kElsewhere;
      g.implementations.push_back(implementation);
      if (choice > 0) {
        starpu_task_set_implementation(task, implementation);
        task->execute_on_a_specific_worker = 1;
        task->workerid = static_cast<unsigned>(worker);
      }
      if (task->cl == snapshot.starpu()) {
        starpu_task* before = first;
        starpu_task_declare_deps_array(task, 1, &before);
      }
    }
    for (starpu_task* task : g.tasks->tasks())
      if (const int error = starpu_task_submit(task); error != 0)
        throw std::runtime_error(std::string("StarPU refused the task ") + task->cl->name + " for worker " +
                                 std::to_string(worker) + ": " + std::strerror(-error));
  }

  void collect(const std::vector<std::unique_ptr<MeasuredGroup>>& groups, std::size_t b) {
    std::vector<std::vector<double>> whole(replicas_.size());
    for (const auto& g : groups) {
      double sum = 0;
      for (std::size_t p = 0; p < g->implementations.size(); ++p) {
        if (g->implementations[p] == kElsewhere) continue;
        starpu_profiling_task_info* info = g->tasks->tasks()[p]->profiling_info;
        const double seconds =
            std::max(starpu_timing_timespec_delay_us(&info->start_time, &info->end_time), kTick) * 1e-6;
        const TrainingShapes::Task& task = shapes_.tasks(b)[p];
        sum += seconds;
        if (g->counts)
          seconds_[{task.codelet, model_of(g->worker), g->implementations[p], task.footprint}].push_back(seconds);
      }
      if (g->counts) whole[static_cast<std::size_t>(g->worker)].push_back(sum);
    }
    for (std::size_t w = 0; w < whole.size(); ++w) {
      group_seconds_[w] = summarize(std::move(whole[w])).seconds;
      to_twin_[w].push_back(group_seconds_[w] /
                            group_seconds_[static_cast<std::size_t>(model_of(static_cast<int>(w)))]);
    }
  }

  struct Known {
    std::size_t fewest = SIZE_MAX;  // measurements of a task by an implementation on a worker's model
    double uncertainty = 0;         // of a mini-batch's time, as a fraction of it; of the model that is known worst
  };
  Known known(std::size_t b) const {
    Known result;
    for (int w = 0; w < static_cast<int>(replicas_.size()); ++w) {
      if (model_of(w) != w) continue;
      double sum = 0, uncertain = 0;
      for (const TrainingShapes::Task& task : shapes_.tasks(b))
        for (unsigned i = 0; i < task.implementations(w).size(); ++i) {
          const auto found = seconds_.find({task.codelet, w, i, task.footprint});
          if (found == seconds_.end()) return {0, INFINITY};
          const Measurement m = summarize(found->second);
          result.fewest = std::min<std::size_t>(result.fewest, m.measurements);
          sum += m.seconds;
          uncertain += m.seconds * m.spread / std::sqrt(static_cast<double>(m.measurements));
        }
      result.uncertainty = std::max(result.uncertainty, uncertain / sum);
    }
    return result;
  }

  bool done(std::size_t b) const {
    const Known k = known(b);
    const bool slow = spent_[b] > kPatience;
    if (k.fewest < (slow ? kFewestIfSlow : kFewest)) return false;
    return slow || k.fewest >= options_.repetitions || k.uncertainty <= options_.precision;
  }

  const CalibrateOptions& options_;
  TrainingShapes& shapes_;
  std::vector<std::size_t> todo_;  // of the shapes' batch sizes
  const std::size_t samples_;
  SampleHandles data_;
  Random random_;
  std::vector<std::unique_ptr<Replica>> replicas_;  // by worker
  unsigned most_implementations_ = 1;
  std::vector<double> group_seconds_;         // by worker, of the last turn
  std::vector<std::vector<double>> to_twin_;  // by worker, of each turn
  std::vector<double> spent_;                 // seconds, by batch size
  std::map<EntryKey, std::vector<double>> seconds_;
};

// Into StarPU's models, which it writes when it shuts down.
void store(TrainingShapes& shapes, const std::map<EntryKey, Measurement>& results) {
  std::set<EntryKey> stored;
  for (std::size_t b = 0; b < shapes.batches().size(); ++b)
    for (std::size_t p = 0; p < shapes.tasks(b).size(); ++p)
      for (int w = 0; w < static_cast<int>(starpu_worker_get_count()); ++w) {
        const TrainingShapes::Task& task = shapes.tasks(b)[p];
        for (unsigned i = 0; i < task.implementations(w).size(); ++i) {
          const EntryKey key{task.codelet, w, i, task.footprint};
          const auto found = results.find(key);
          if (found == results.end() || !stored.insert(key).second) continue;
          shapes.with_task(b, p, [&](starpu_task* t) {
            set_entry(t, w, i, {found->second.seconds, found->second.measurements});
          });
        }
      }
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm tm{};
  ::gmtime_r(&now, &tm);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
  return text;
}

// What may be wrong with figures that were measured properly.
void warn_of_circumstances(const Calibration& calibration) {
  for (int w = 0; w < static_cast<int>(starpu_worker_get_count()); ++w)
    if (const double ratio = calibration.to_twin(w); ratio > kUnlike || ratio < 1 / kUnlike) {
      char times[16];
      std::snprintf(times, sizeof(times), "%.2f", ratio);
      log_warning("worker " + std::to_string(w) + " takes " + times + " times as long as worker " +
                  std::to_string(model_of(w)) +
                  ", whose models it shares; set STARPU_PERF_MODEL_HOMOGENEOUS_CPU=0 and calibrate again");
    }
  std::string sizes;
  for (std::int32_t batch : calibration.uncertain()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(batch);
  if (!sizes.empty())
    log_warning("the measurements at batch " + sizes +
                " differ a lot from one another; let nothing else run on this machine, and calibrate again");
}

// What is newly known, beside what was known under the same circumstances.
CalibrationRecord renew(const std::optional<CalibrationRecord>& old, const std::string& network,
                        const TrainingShapes& shapes, const std::map<EntryKey, Measurement>& results) {
  CalibrationRecord record{network, model_host(), utc_now(), circumstances_now(), cpus_share_models(), {}, {}};
  if (old && old->host == record.host && old->homogeneous_cpu == record.homogeneous_cpu &&
      differences(old->circumstances, record.circumstances).empty()) {
    record.batches = old->batches;
    record.entries = old->entries;
  }
  for (const auto& [key, m] : results) record.entries.insert_or_assign(name_of(key), m);
  std::vector<std::int32_t> known;
  for (std::size_t b = 0; b < shapes.batches().size(); ++b)
    if (std::all_of(shapes.tasks(b).begin(), shapes.tasks(b).end(), [&](const TrainingShapes::Task& task) {
          return results.contains({task.codelet, 0, 0, task.footprint});
        }))
      known.push_back(shapes.batches()[b]);
  record.batches = merge_batches(std::move(record.batches), known);
  return record;
}

// The sizes that have an entry which cannot be true; each is reported.
std::vector<std::size_t> implausible_batches(const TrainingShapes& shapes, const CalibrationRecord* record) {
  std::set<std::size_t> batches;
  for (const Implausible& found : find_implausible(shapes, read_entries(shapes), record)) {
    log_warning(sentence(shapes, found) + "; it is measured anew");
    batches.insert(found.batch);
  }
  return {batches.begin(), batches.end()};
}

void report(const CalibrateOptions& o, const CalibrationRecord& record, const SpeedTable& table) {
  if (!o.common.json) {
    std::cout << text(table) << "models of " << record.host << " in " << model_directory().string() << std::endl;
    return;
  }
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (const WorkerSpeed& w : table.workers)
    workers.push_back(
        {{"id", w.id}, {"name", w.name}, {"kind", w.kind}, {"points", points_json(w)}, {"share", share_json(w)}});
  std::cout << nlohmann::ordered_json{{"model", record.network},
                                      {"batch", table.batch},
                                      {"host", record.host},
                                      {"emulated", !o.slowdown.empty()},
                                      {"workers", std::move(workers)}}
                   .dump(2)
            << std::endl;
}

}  // namespace

int run_calibrate(const CalibrateOptions& o) {
  const NetworkSpec spec = read_network_spec(find_network(o.model));
  const Dataset data = load_dataset("synthetic", std::nullopt, spec, 1);
  const Runtime runtime({.verbose = o.common.verbose, .slowdown = o.slowdown, .tf32 = o.tf32, .unlike_cpus = [&] {
                           return cores_are_unlike() || calibrated_unlike(spec.name);
                         }});
  const StopSignal stop;
  Network network(spec, 1);
  const auto old = usable_record(spec.name);
  std::vector<std::int32_t> batches = o.batches;
  if (batches.empty()) batches = merge_batches(default_batches(), std::vector{spec.defaults.batch});
  if (o.check && old) batches = merge_batches(std::move(batches), old->batches);
  TrainingShapes shapes(network, batches, Overlap::possible);

  std::vector<std::size_t> todo;
  if (o.check) {
    if (old) warn_if_stale(*old);
    todo = implausible_batches(shapes, old ? &*old : nullptr);
    if (todo.empty()) log_info("no model of " + spec.name + " looks wrong");
  } else {
    for (std::size_t b = 0; b < batches.size(); ++b) todo.push_back(b);
  }
  Calibration calibration(o, network, data.train, shapes, std::move(todo));
  const bool complete = calibration.run();
  const auto results = calibration.results();
  store(shapes, results);
  const CalibrationRecord record = renew(old, spec.name, shapes, results);
  if (!results.empty()) write_record(record);

  Entries entries = read_entries(shapes);
  for (const auto& [key, m] : results) entries.insert_or_assign(key, Entry{m.seconds, m.measurements});
  const bool has_default = std::binary_search(batches.begin(), batches.end(), spec.defaults.batch);
  const SpeedTable table = speed_table(shapes, entries, &record, has_default ? spec.defaults.batch : batches.back());
  if (!results.empty()) warn_of_circumstances(calibration);
  report(o, record, table);
  if (complete) return exit_done;
  log_info("stopped by a signal; what is known so far is kept");
  return 128 + StopSignal::caught();
}

}  // namespace prorata
