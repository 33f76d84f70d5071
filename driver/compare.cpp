// `prorata compare`: the same training under several rules, in turns; one table, one picture.
//
// Each run is a process of its own, this program started again as `train`: StarPU reads its environment once, and a
// rule that fails or hangs takes nothing with it. Each rule of each experiment has performance models of its own, in
// the result's folder, filled by a first run that does not count: StarPU's policies that go by models know the machine
// by then, and nobody goes by models that another rule, build or slowdown has left.
#include "driver/child_process.h"
#include "driver/compare_plot.h"
#include "driver/compare_rules.h"
#include "driver/compare_summary.h"
#include "driver/data/dataset.h"
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"
#include "driver/report/run_directory.h"
#include "driver/stop_signal.h"
#include "models/errors.h"
#include "models/specification.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>

namespace prorata {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kThisProgram = "/proc/self/exe";
constexpr double kShortTimeout = 120;  // of what takes a second or two

struct CpuWorker {
  int id;
  std::optional<int> processing_unit;  // hwloc's logical number, where the worker is bound to one
};

// The last line of what the program said is what went wrong.
std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = line;
  constexpr std::string_view prefix = "prorata: ";
  return last.starts_with(prefix) ? last.substr(prefix.size()) : last;
}

std::string what_went_wrong(const ChildResult& r, double timeout) {
  const std::string said = last_line(r.err);
  switch (r.end) {
    case ChildResult::End::timed_out: return fmt::format("not done after {:g} s (--timeout)", timeout);
    case ChildResult::End::signalled:
      return fmt::format("ended by signal {} ({}){}", r.code, strsignal(r.code), said.empty() ? "" : ": " + said);
    case ChildResult::End::exited: return said.empty() ? fmt::format("exit code {}", r.code) : said;
    case ChildResult::End::stopped: return "stopped";
    case ChildResult::End::not_found: break;
  }
  return std::string(kThisProgram) + " is not there";
}

// The workers of a run, asked of a run's own environment. Empty where one is no CPU: alone it could not be run.
std::vector<CpuWorker> cpu_workers() {
  const ChildResult r =
      run_child(kThisProgram, {"devices", "--json", "--quiet"}, {{"STARPU_SCHED", ""}}, kShortTimeout);
  if (r.end == ChildResult::End::exited && r.code == exit_usage) throw InputError(last_line(r.err));
  if (!r.succeeded()) throw std::runtime_error("'prorata devices': " + what_went_wrong(r, kShortTimeout));
  std::vector<CpuWorker> workers;
  const Json devices = Json::parse(r.out);
  for (const Json& w : devices.at("workers")) {
    if (w.at("kind") != "cpu") return {};
    const Json& unit = w.at("processing_unit");
    workers.push_back({w.at("id").get<int>(), unit.is_null() ? std::nullopt : std::optional(unit.get<int>())});
  }
  return workers;
}

// One way of running the training in one experiment.
struct Case {
  std::string slowdown;  // the experiment
  Rule rule;
  std::optional<int> alone;
  std::vector<std::string> arguments;              // of `train`, besides what all have in common
  std::map<std::string, std::string> environment;  // besides the scheduler and the models' folder
  fs::path folder;                                 // below models/ and runs/
  std::string given_up;                            // why it is not tried again
};

class CompareSession {
 public:
  explicit CompareSession(const CompareOptions& o)
      : options_(o), training_(training_arguments(*o.app)), workers_(cpu_workers()) {
    std::vector<Rule> rules = o.balances.empty() ? our_rules() : choose(our_rules(), o.balances);
    const std::vector<Rule> more = o.schedulers.empty() ? usual_starpu_rules() : choose(starpu_rules(), o.schedulers);
    rules.insert(rules.end(), more.begin(), more.end());
    if (rules.empty()) throw InputError("there is nothing to compare; name rules with --balances or --schedulers");
    for (const Slowdown& s : o.slowdowns)
      if (std::none_of(cases_.begin(), cases_.end(), [&](const Case& c) { return c.slowdown == s.text; }))
        add_experiment(s, rules);
    comparison_.workers = workers_.size();
    comparison_.repeats = o.repeats;
    folder_ = make_result_folder(o.train.out, "compare", o.train.overwrite);
    fs::remove_all(folder_ / "models");
  }

  // Whatever happens to single runs, what is done is in the folder.
  int run() {
    const StopSignal stop;
    if (options_.warmup > 0)
      for (Case& c : cases_) warm_up(c);
    for (int seed = 1; seed <= options_.repeats; ++seed)
      for (Case& c : cases_) measure(c, static_cast<std::uint64_t>(seed));
    if (const int signal = StopSignal::caught(); signal != 0)
      comparison_.stopped_by = signal == SIGINT ? "SIGINT" : "SIGTERM";
    write_results();
    return exit_code();
  }

 private:
  void add_experiment(const Slowdown& s, const std::vector<Rule>& rules) {
    std::map<int, double> factors;
    for (const auto& [worker, factor] : s.factors) {
      if (std::none_of(workers_.begin(), workers_.end(), [w = worker](const CpuWorker& c) { return c.id == w; }))
        throw InputError(fmt::format("--slowdown: there is no CPU worker {} ('prorata devices')", worker));
      factors[worker] = factor;
    }
    for (const CpuWorker& w : workers_) {
      Case c = make_case(s, {fmt::format("worker {} alone", w.id), our_rules().front().scheduler, "", ""});
      c.alone = w.id;
      if (factors.count(w.id)) c.arguments = {fmt::format("--slowdown=0:{:g}", factors[w.id])};
      // As free to choose implementations as the runs that it is a yardstick for.
      if (!options_.train.deterministic) c.arguments.emplace_back("--no-deterministic");
      c.environment["STARPU_NCPU"] = "1";
      if (w.processing_unit) c.environment["STARPU_WORKERS_CPUID"] = std::to_string(*w.processing_unit);
      cases_.push_back(std::move(c));
    }
    for (const Rule& rule : rules) {
      Case c = make_case(s, rule);
      if (!s.factors.empty()) c.arguments.push_back("--slowdown=" + s.text);
      if (!rule.balance.empty()) c.arguments.push_back("--balance=" + rule.balance);
      if (!rule.share.empty()) c.arguments.push_back("--share=" + rule.share);
      cases_.push_back(std::move(c));
    }
  }

  static Case make_case(const Slowdown& s, const Rule& rule) {
    std::string name = s.text + "/" + rule.label;
    for (char& c : name) c = c == ':' ? 'x' : c == ',' || c == ' ' ? '-' : c;
    return {s.text, rule, std::nullopt, {}, {}, name, ""};
  }

  ChildResult start(const Case& c, std::vector<std::string> arguments, const fs::path& out) const {
    arguments.insert(arguments.begin(), {"train", "--json", "--quiet", "--overwrite", "--out=" + out.string()});
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    std::map<std::string, std::string> environment = c.environment;
    environment["STARPU_SCHED"] = c.rule.scheduler;
    environment["STARPU_PERF_MODEL_DIR"] = (folder_ / "models" / c.folder).string();
    ChildResult r = run_child(kThisProgram, arguments, environment, options_.timeout);
    std::error_code ignored;
    fs::remove_all(out / "checkpoint", ignored);  // a comparison is about figures
    fs::remove_all(out / "checkpoints", ignored);
    return r;
  }

  void warm_up(Case& c) {
    if (StopSignal::caught() != 0) return;
    std::vector<std::string> arguments = training_;
    std::erase_if(arguments, [](const std::string& a) { return a.starts_with("--epochs="); });
    arguments.push_back(fmt::format("--epochs={}", options_.warmup));
    const fs::path out = folder_ / "runs" / c.folder / "warm-up";
    const ChildResult r = start(c, std::move(arguments), out);
    std::error_code ignored;
    fs::remove_all(out, ignored);
    if (r.succeeded())
      tell(c, "warm-up", "done");
    else if (r.end != ChildResult::End::stopped)
      tell_failure(c, "warm-up", note_failure(c, r));
  }

  void measure(Case& c, std::uint64_t seed) {
    if (StopSignal::caught() != 0) return;
    ComparedRun run;
    run.slowdown = c.slowdown;
    run.rule = c.rule;
    run.alone = c.alone;
    run.seed = seed;
    run.error = c.given_up;
    if (!run.failed()) {
      std::vector<std::string> arguments = training_;
      arguments.push_back(fmt::format("--seed={}", seed));
      const ChildResult r = start(c, std::move(arguments), folder_ / "runs" / c.folder / fmt::format("seed-{}", seed));
      if (r.end == ChildResult::End::stopped) return;
      run.error = r.succeeded() ? read_figures(r.out, run) : note_failure(c, r);
    }
    const std::string which = fmt::format("seed {}", seed);
    if (run.failed())
      tell_failure(c, which, run.error);
    else
      tell(c, which, fmt::format("{:.0f} samples/s, accuracy {:.4f}", run.samples_per_second, run.test_accuracy));
    comparison_.runs.push_back(std::move(run));
    write_whole(folder_ / "compare.json", json(comparison_).dump(2) + "\n");
  }

  // What is wrong with the summary, or "".
  std::string read_figures(const std::string& text, ComparedRun& run) {
    try {
      const Json summary = Json::parse(text);
      take_figures(summary, run);
      if (comparison_.training.is_null() && !run.alone)
        for (const char* name : {"version",
                                 "model",
                                 "parameters",
                                 "dataset",
                                 "preprocessing",
                                 "train_per_class",
                                 "split_seed",
                                 "epochs_wanted",
                                 "batch",
                                 "optimizer",
                                 "learning_rate",
                                 "lr_schedule",
                                 "lr_step_epochs",
                                 "lr_gamma",
                                 "lr_warmup",
                                 "momentum",
                                 "nesterov",
                                 "betas",
                                 "eps",
                                 "weight_decay",
                                 "clip_norm",
                                 "consistency",
                                 "tf32",
                                 "starpu_version",
                                 "host"})
          comparison_.training[name] = summary.at(name);
      return "";
    } catch (const nlohmann::json::exception& e) {
      return std::string("its summary cannot be read: ") + e.what();
    }
  }

  // A rule that hung once would hang again, for as long.
  std::string note_failure(Case& c, const ChildResult& r) const {
    std::string error = what_went_wrong(r, options_.timeout);
    if (r.end == ChildResult::End::timed_out) c.given_up = error + "; not tried again";
    return error;
  }

  std::string progress(const Case& c, const std::string& which) {
    ++done_;
    const std::size_t all = cases_.size() * static_cast<std::size_t>(options_.repeats + (options_.warmup > 0 ? 1 : 0));
    return fmt::format("[{}/{}] {}, {}, {}: ", done_, all, c.slowdown, c.rule.label, which);
  }
  void tell(const Case& c, const std::string& which, const std::string& what) { log_info(progress(c, which) + what); }
  void tell_failure(const Case& c, const std::string& which, const std::string& error) {
    log_warning(progress(c, which) + "failed: " + error);
  }

  void write_results() const {
    const std::string table = text(comparison_);
    write_whole(folder_ / "compare.json", json(comparison_).dump(2) + "\n");
    write_whole(folder_ / "compare.txt", table);
    draw();
    if (options_.train.common.json)
      std::cout << json(comparison_).dump(2) << std::endl;
    else
      std::cout << table << "\nrun directory  " << folder_.string() << std::endl;
  }

  void draw() const {
    if (!measured_anything()) return;
    const StopSignal anew;  // one that ended the comparison is no reason not to draw what there is
    const fs::path script = folder_ / "compare.gnuplot", picture = folder_ / "compare.svg";
    write_whole(script, plot_script(comparison_, picture.string()));
    const ChildResult r = run_child("gnuplot", {script.string()}, {}, kShortTimeout);
    if (r.succeeded()) return;
    std::error_code ignored;
    fs::remove(picture, ignored);  // half of one, or that of an overwritten comparison
    if (r.end == ChildResult::End::not_found)
      log_warning("there is no picture, for gnuplot is not installed (Debian: gnuplot-nox); 'gnuplot " +
                  script.string() + "' draws it later");
    else
      log_warning("there is no picture: gnuplot: " + what_went_wrong(r, kShortTimeout));
  }

  bool measured_anything() const {
    return std::any_of(comparison_.runs.begin(), comparison_.runs.end(), [](auto& r) { return !r.failed(); });
  }

  int exit_code() const {
    if (comparison_.stopped_by == "SIGINT") return 128 + SIGINT;
    if (comparison_.stopped_by == "SIGTERM") return 128 + SIGTERM;
    if (measured_anything()) return exit_done;
    log_error("no run succeeded; the table says why each failed");
    return exit_failed;
  }

  const CompareOptions& options_;
  const std::vector<std::string> training_;
  const std::vector<CpuWorker> workers_;
  std::vector<Case> cases_;
  fs::path folder_;
  Comparison comparison_;
  std::size_t done_ = 0;
};

}  // namespace

int run_compare(const CompareOptions& o) {
  // What no run could do is said once, before any is started.
  load_network_and_data(find_network(o.train.data.model), o.train.data.dataset, o.train.data.data, o.train.seed,
                        o.train.data.preparation);
  return CompareSession(o).run();
}

}  // namespace prorata
