#include "driver/compare_summary.h"

#include "driver/options.h"
#include "scheduler/prorata.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace prorata {
namespace {

using Json = nlohmann::ordered_json;
using Figure = double ComparedRun::*;

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::optional<double> quotient(std::optional<double> a, std::optional<double> b) {
  if (!a || !b || *b <= 0) return std::nullopt;
  return *a / *b;
}

bool ours(const Rule& rule) { return rule.scheduler == starpu_prorata_policy.policy_name; }
bool in_proportion(const Rule& rule) { return ours(rule) && rule.balance == to_string(PRORATA_PRORATA); }

bool same_repetition(const ComparedRun& a, const ComparedRun& b) {
  return a.slowdown == b.slowdown && a.seed == b.seed;
}

// Samples/s of the rule in the repetition of `run`.
std::optional<double> speed_beside(const Comparison& c, const ComparedRun& run, const std::string& label) {
  for (const ComparedRun& r : c.runs)
    if (same_repetition(r, run) && r.rule.label == label && !r.failed()) return r.samples_per_second;
  return std::nullopt;
}

std::vector<double> speeds_alone(const Comparison& c, const ComparedRun& run) {
  std::vector<double> speeds;
  for (const ComparedRun& r : c.runs)
    if (same_repetition(r, run) && r.alone && !r.failed()) speeds.push_back(r.samples_per_second);
  return speeds;
}

template <class Of>
std::optional<double> median_of(const std::vector<const ComparedRun*>& runs, const Of& of) {
  std::vector<double> values;
  for (const ComparedRun* r : runs)
    if (const std::optional<double> value = of(*r)) values.push_back(*value);
  return median(std::move(values));
}

struct Range {
  double least, mean, most;
};
Range range(const std::vector<const ComparedRun*>& runs, Figure figure) {
  std::vector<double> values;
  for (const ComparedRun* r : runs) values.push_back(r->*figure);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {*least, std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()), *most};
}

// The runs of one rule in one experiment.
ComparisonRow row_of(const Comparison& c, const std::vector<const ComparedRun*>& runs,
                     const std::vector<std::string>& proportional) {
  ComparisonRow row;
  row.label = runs.front()->rule.label;
  row.alone = runs.front()->alone;
  row.ours = !row.alone && ours(runs.front()->rule);
  row.runs = static_cast<int>(runs.size());
  std::vector<const ComparedRun*> good;
  for (const ComparedRun* r : runs) {
    if (!r->failed()) good.push_back(r);
    if (r->failed() && row.failed++ == 0) row.error = r->error;
  }
  if (good.empty()) return row;

  const auto middle = [&](Figure figure) {
    return median_of(good, [=](const ComparedRun& r) { return std::optional(r.*figure); }).value();
  };
  const auto ratio = [&](std::optional<double> Ratios::*which) {
    return median_of(good, [&](const ComparedRun& r) { return ratios(c, r).*which; });
  };
  const Range speed = range(good, &ComparedRun::samples_per_second);
  const Range accuracy = range(good, &ComparedRun::test_accuracy);
  row.samples_per_second = middle(&ComparedRun::samples_per_second);
  row.slowest_run = speed.least;
  row.fastest_run = speed.most;
  row.accuracy_mean = accuracy.mean;
  row.accuracy_min = accuracy.least;
  row.accuracy_max = accuracy.most;
  row.staleness_mean = middle(&ComparedRun::staleness_mean);
  row.slowest_staleness_mean = middle(&ComparedRun::slowest_staleness_mean);
  row.slowest_staleness_p95 = middle(&ComparedRun::slowest_staleness_p95);
  row.to_sum = ratio(&Ratios::to_sum);
  row.to_uniform = ratio(&Ratios::to_uniform);
  row.to_ceiling = ratio(&Ratios::to_ceiling);
  for (const std::string& label : proportional)
    row.ours_to_it.emplace_back(label, median_of(good, [&](const ComparedRun& r) {
                                  return quotient(speed_beside(c, r, label), r.samples_per_second);
                                }));
  return row;
}

// Different values of `of` in the order in which they first come.
template <class Of>
std::vector<std::string> distinct(const std::vector<ComparedRun>& runs, const Of& of) {
  std::vector<std::string> values;
  for (const ComparedRun& r : runs)
    if (const std::string value = of(r); std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  return values;
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

void take_figures(const Json& summary, ComparedRun& run) {
  run.samples_per_second = summary.at("samples_per_second").get<double>();
  run.test_accuracy = summary.at("test_accuracy").get<double>();
  run.staleness_mean = summary.at("staleness").at("mean").get<double>();
  const auto slowness = [](const Json& w) {
    return std::pair(w.at("slowdown").get<double>(), -w.at("measured_samples_per_second").get<double>());
  };
  const Json& workers = summary.at("workers");
  const Json& slowest = *std::max_element(workers.begin(), workers.end(),
                                          [&](const Json& a, const Json& b) { return slowness(a) < slowness(b); });
  run.slowest_staleness_mean = slowest.at("staleness").at("mean").get<double>();
  run.slowest_staleness_p95 = slowest.at("staleness").at("p95").get<double>();
}

Ratios ratios(const Comparison& c, const ComparedRun& run) {
  Ratios result;
  if (const std::vector<double> alone = speeds_alone(c, run); c.workers > 0 && alone.size() == c.workers) {
    result.sum_of_speeds = std::accumulate(alone.begin(), alone.end(), 0.0);
    result.ceiling =
        quotient(result.sum_of_speeds, static_cast<double>(c.workers) * *std::min_element(alone.begin(), alone.end()));
  }
  if (run.failed()) return result;
  result.to_sum = quotient(run.samples_per_second, result.sum_of_speeds);
  result.to_uniform = quotient(run.samples_per_second, speed_beside(c, run, to_string(PRORATA_UNIFORM)));
  result.to_ceiling = quotient(result.to_uniform, result.ceiling);
  return result;
}

std::vector<ExperimentSummary> summarize(const Comparison& c) {
  const auto label_of = [](const ComparedRun& r) { return r.rule.label; };
  std::vector<ExperimentSummary> result;
  for (const std::string& slowdown : distinct(c.runs, [](const ComparedRun& r) { return r.slowdown; })) {
    std::vector<ComparedRun> runs;
    std::copy_if(c.runs.begin(), c.runs.end(), std::back_inserter(runs),
                 [&](const ComparedRun& r) { return r.slowdown == slowdown; });
    std::vector<ComparedRun> dealt;
    std::copy_if(runs.begin(), runs.end(), std::back_inserter(dealt),
                 [](const ComparedRun& r) { return !r.alone && in_proportion(r.rule); });
    const std::vector<std::string> proportional = distinct(dealt, label_of);

    ExperimentSummary& experiment = result.emplace_back();
    experiment.slowdown = slowdown;
    for (const std::string& label : distinct(runs, label_of)) {
      std::vector<const ComparedRun*> of_rule;
      for (const ComparedRun& r : runs)
        if (r.rule.label == label) of_rule.push_back(&r);
      experiment.rows.push_back(row_of(c, of_rule, proportional));
    }
    // One run of each repetition knows its yardsticks.
    std::vector<const ComparedRun*> first;
    for (const ComparedRun& r : runs)
      if (r.rule.label == runs.front().rule.label) first.push_back(&r);
    experiment.sum_of_speeds = median_of(first, [&](const ComparedRun& r) { return ratios(c, r).sum_of_speeds; });
    experiment.ceiling = median_of(first, [&](const ComparedRun& r) { return ratios(c, r).ceiling; });
  }
  return result;
}

Json json(const Comparison& c) {
  Json root = {{"training", c.training},
               {"workers", c.workers},
               {"repeats", c.repeats},
               {"stopped_by", c.stopped_by.empty() ? Json(nullptr) : Json(c.stopped_by)}};
  Json& runs = root["runs"] = Json::array();
  for (const ComparedRun& r : c.runs) {
    Json& run = runs.emplace_back(Json{{"label", r.rule.label},
                                       {"slowdown", r.slowdown},
                                       {"seed", r.seed},
                                       {"scheduler", r.rule.scheduler},
                                       {"balance", r.rule.balance.empty() ? Json(nullptr) : Json(r.rule.balance)},
                                       {"share", r.rule.share.empty() ? Json(nullptr) : Json(r.rule.share)},
                                       {"alone", r.alone ? Json(*r.alone) : Json(nullptr)},
                                       {"error", r.failed() ? Json(r.error) : Json(nullptr)}});
    const auto figure = [&](double value) { return r.failed() ? Json(nullptr) : Json(value); };
    const Ratios beside = ratios(c, r);
    run["samples_per_second"] = figure(r.samples_per_second);
    run["test_accuracy"] = figure(r.test_accuracy);
    run["staleness_mean"] = figure(r.staleness_mean);
    run["slowest_worker_staleness_mean"] = figure(r.slowest_staleness_mean);
    run["slowest_worker_staleness_p95"] = figure(r.slowest_staleness_p95);
    run["relative_to_sum_of_speeds"] = or_null(beside.to_sum);
    run["relative_to_uniform"] = or_null(beside.to_uniform);
    run["relative_to_ceiling"] = or_null(beside.to_ceiling);
  }
  Json& experiments = root["summary"] = Json::array();
  for (const ExperimentSummary& e : summarize(c)) {
    Json rows = Json::array();
    for (const ComparisonRow& r : e.rows) {
      const auto figure = [&](double value) { return r.measured() ? Json(value) : Json(nullptr); };
      Json ours_to_it = Json::object();
      for (const auto& [label, value] : r.ours_to_it) ours_to_it[label] = or_null(value);
      rows.push_back({{"label", r.label},
                      {"runs", r.runs},
                      {"failed", r.failed},
                      {"samples_per_second", figure(r.samples_per_second)},
                      {"samples_per_second_min", figure(r.slowest_run)},
                      {"samples_per_second_max", figure(r.fastest_run)},
                      {"test_accuracy", figure(r.accuracy_mean)},
                      {"test_accuracy_min", figure(r.accuracy_min)},
                      {"test_accuracy_max", figure(r.accuracy_max)},
                      {"staleness_mean", figure(r.staleness_mean)},
                      {"slowest_worker_staleness_mean", figure(r.slowest_staleness_mean)},
                      {"slowest_worker_staleness_p95", figure(r.slowest_staleness_p95)},
                      {"relative_to_sum_of_speeds", or_null(r.to_sum)},
                      {"relative_to_uniform", or_null(r.to_uniform)},
                      {"relative_to_ceiling", or_null(r.to_ceiling)},
                      {"ours_relative_to_it", std::move(ours_to_it)}});
    }
    experiments.push_back({{"slowdown", e.slowdown},
                           {"sum_of_speeds", or_null(e.sum_of_speeds)},
                           {"ceiling", or_null(e.ceiling)},
                           {"rows", std::move(rows)}});
  }
  return root;
}

}  // namespace prorata
