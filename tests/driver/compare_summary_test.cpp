// What is told of a comparison follows from its runs.
#include "driver/compare_summary.h"

#include "driver/compare_plot.h"

#include <gtest/gtest.h>

namespace prorata {
namespace {

const Rule kUniform{"uniform", "prorata", "uniform", "count"};
const Rule kCount{"prorata-count", "prorata", "prorata", "count"};
const Rule kSize{"prorata-size", "prorata", "prorata", "size"};
const Rule kEager{"eager", "eager", "", ""};

ComparedRun run_of(const Rule& rule, std::uint64_t seed, double speed, double accuracy = 0.8) {
  ComparedRun r;
  r.slowdown = "1:4";
  r.rule = rule;
  r.seed = seed;
  r.samples_per_second = speed;
  r.test_accuracy = accuracy;
  return r;
}

ComparedRun alone(int worker, std::uint64_t seed, double speed) {
  ComparedRun r = run_of({"worker " + std::to_string(worker) + " alone", "prorata", "", ""}, seed, speed);
  r.alone = worker;
  return r;
}

ComparedRun failed(ComparedRun r, const std::string& error) {
  r.error = error;
  return r;
}

// Three repetitions on a machine that is twice as fast in the second and three times in the third.
Comparison drifting() {
  Comparison c;
  c.workers = 2;
  c.repeats = 3;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto n = static_cast<double>(seed);
    c.runs.insert(c.runs.end(), {alone(0, seed, 800 * n), alone(1, seed, 200 * n), run_of(kUniform, seed, 400 * n),
                                 run_of(kCount, seed, 950 * n, 0.8 + 0.01 * n), run_of(kEager, seed, 760 * n)});
  }
  return c;
}

const ComparisonRow& row(const ExperimentSummary& e, const std::string& label) {
  for (const ComparisonRow& r : e.rows)
    if (r.label == label) return r;
  throw std::runtime_error("no row " + label);
}

TEST(Comparison, FormsRatiosWithinARepetition) {
  const Comparison c = drifting();
  for (const ComparedRun& r : c.runs) {
    const Ratios beside = ratios(c, r);
    EXPECT_DOUBLE_EQ(beside.sum_of_speeds.value(), 1000 * static_cast<double>(r.seed));
    EXPECT_DOUBLE_EQ(beside.ceiling.value(), 2.5);  // (1 + 1/4) / (2 * 1/4)
    if (r.rule.label != "prorata-count") continue;
    EXPECT_DOUBLE_EQ(beside.to_sum.value(), 0.95);
    EXPECT_DOUBLE_EQ(beside.to_uniform.value(), 2.375);
    EXPECT_DOUBLE_EQ(beside.to_ceiling.value(), 0.95);
  }
}

TEST(Comparison, TellsMediansOfSpeedsAndMeansOfAccuracies) {
  const auto experiments = summarize(drifting());
  ASSERT_EQ(experiments.size(), 1u);
  EXPECT_EQ(experiments[0].sum_of_speeds, 2000);
  EXPECT_EQ(experiments[0].ceiling, 2.5);
  const ComparisonRow& r = row(experiments[0], "prorata-count");
  EXPECT_EQ(r.runs, 3);
  EXPECT_EQ(r.samples_per_second, 1900);
  EXPECT_EQ(r.slowest_run, 950);
  EXPECT_EQ(r.fastest_run, 2850);
  EXPECT_DOUBLE_EQ(r.spread(), 1);
  EXPECT_DOUBLE_EQ(r.accuracy_mean, 0.82);
  EXPECT_DOUBLE_EQ(r.accuracy_min, 0.81);
  EXPECT_DOUBLE_EQ(r.accuracy_max, 0.83);
}

TEST(Comparison, TakesTheMedianOfThePairsNotTheRatioOfTheMedians) {
  Comparison c;
  c.workers = 0;
  // Ratios 2, 1, 10; the ratio of the medians would be 30 / 10.
  c.runs = {run_of(kCount, 1, 20),   run_of(kUniform, 1, 10), run_of(kCount, 2, 30),
            run_of(kUniform, 2, 30), run_of(kCount, 3, 50),   run_of(kUniform, 3, 5)};
  EXPECT_EQ(row(summarize(c)[0], "prorata-count").to_uniform, 2);
  c.runs.resize(4);  // of an even number the mean of the middle two
  EXPECT_EQ(row(summarize(c)[0], "prorata-count").to_uniform, 1.5);
}

TEST(Comparison, SetsEachRuleInProportionBesideTheOthers) {
  Comparison c = drifting();
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    c.runs.push_back(run_of(kSize, seed, 1140 * static_cast<double>(seed)));
  const auto experiments = summarize(c);
  const ComparisonRow& eager = row(experiments[0], "eager");
  ASSERT_EQ(eager.ours_to_it.size(), 2u);
  EXPECT_EQ(eager.ours_to_it[0].first, "prorata-count");
  EXPECT_DOUBLE_EQ(eager.ours_to_it[0].second.value(), 1.25);
  EXPECT_EQ(eager.ours_to_it[1].first, "prorata-size");
  EXPECT_DOUBLE_EQ(eager.ours_to_it[1].second.value(), 1.5);
}

TEST(Comparison, KeepsExperimentsApart) {
  Comparison c = drifting();
  for (ComparedRun r : drifting().runs) {
    r.slowdown = "1:2";
    r.samples_per_second *= r.rule.label == "uniform" ? 2 : 1;
    c.runs.push_back(r);
  }
  const auto experiments = summarize(c);
  ASSERT_EQ(experiments.size(), 2u);
  EXPECT_DOUBLE_EQ(row(experiments[0], "prorata-count").to_uniform.value(), 2.375);
  EXPECT_EQ(experiments[1].slowdown, "1:2");
  EXPECT_DOUBLE_EQ(row(experiments[1], "prorata-count").to_uniform.value(), 1.1875);
}

TEST(Comparison, LeavesOutPairsOfWhichOneFailed) {
  Comparison c = drifting();
  for (ComparedRun& r : c.runs) {
    if (r.rule.label == "uniform" && r.seed == 2) r = failed(r, "it hung");
    if (r.alone == 1 && r.seed != 1) r = failed(r, "no core");
    if (r.rule.label == "eager") r = failed(r, "seed " + std::to_string(r.seed));
  }
  const auto experiments = summarize(c);
  EXPECT_EQ(experiments[0].sum_of_speeds, 1000);  // of the only repetition where both are known
  const ComparisonRow& ours = row(experiments[0], "prorata-count");
  EXPECT_EQ(ours.failed, 0);
  EXPECT_DOUBLE_EQ(ours.to_uniform.value(), 2.375);
  EXPECT_DOUBLE_EQ(ours.to_sum.value(), 0.95);
  const ComparisonRow& uniform = row(experiments[0], "uniform");
  EXPECT_EQ(uniform.runs, 3);
  EXPECT_EQ(uniform.failed, 1);
  EXPECT_EQ(uniform.samples_per_second, 800);  // of 400 and 1200
  const ComparisonRow& eager = row(experiments[0], "eager");
  EXPECT_FALSE(eager.measured());
  EXPECT_EQ(eager.error, "seed 1");
  EXPECT_FALSE(eager.to_sum.has_value());
}

TEST(Comparison, SaysInTheTableWhatFailedAndWhy) {
  Comparison c = drifting();
  for (ComparedRun& r : c.runs)
    if (r.rule.label == "eager") r = failed(r, "it hung");
  const std::string table = text(c);
  EXPECT_NE(table.find("worker 1 slowed 4x"), std::string::npos) << table;
  EXPECT_NE(table.find("eager failed 3 of 3 times: it hung"), std::string::npos) << table;
  EXPECT_NE(table.find("1,900"), std::string::npos) << table;
}

TEST(Comparison, TellsTheSameInJson) {
  Comparison c = drifting();
  c.runs.back() = failed(c.runs.back(), "it hung");
  const auto j = json(c);
  ASSERT_EQ(j["runs"].size(), c.runs.size());
  EXPECT_EQ(j["runs"][3]["label"], "prorata-count");
  EXPECT_DOUBLE_EQ(j["runs"][3]["relative_to_sum_of_speeds"], 0.95);
  EXPECT_EQ(j["runs"].back()["error"], "it hung");
  EXPECT_TRUE(j["runs"].back()["samples_per_second"].is_null());
  EXPECT_EQ(j["summary"][0]["rows"][3]["samples_per_second"], 1900);
  EXPECT_EQ(j["summary"][0]["rows"][4]["failed"], 1);
}

TEST(Comparison, OfNothingIsEmpty) {
  EXPECT_TRUE(summarize({}).empty());
  EXPECT_NE(text({}), "");
  EXPECT_TRUE(json({})["runs"].empty());
}

TEST(Comparison, TakesStalenessFromTheWorkerThatIsSlowedMostThenFromTheSlowest) {
  auto worker = [](double slowdown, double speed, double staleness) {
    return nlohmann::ordered_json{{"slowdown", slowdown},
                                  {"measured_samples_per_second", speed},
                                  {"staleness", {{"mean", staleness}, {"p95", 2 * staleness}}}};
  };
  nlohmann::ordered_json summary = {{"samples_per_second", 10.0},
                                    {"test_accuracy", 0.5},
                                    {"staleness", {{"mean", 1.5}}},
                                    {"workers", {worker(1, 5, 1), worker(4, 9, 3), worker(4, 8, 7)}}};
  ComparedRun r;
  take_figures(summary, r);
  EXPECT_EQ(r.samples_per_second, 10);
  EXPECT_EQ(r.test_accuracy, 0.5);
  EXPECT_EQ(r.staleness_mean, 1.5);
  EXPECT_EQ(r.slowest_staleness_mean, 7);
  EXPECT_EQ(r.slowest_staleness_p95, 14);
  summary["test_accuracy"] = nullptr;
  EXPECT_THROW(take_figures(summary, r), nlohmann::json::exception);
}

TEST(Comparison, IsDrawnWithEveryRuleThatSucceededAndNamesWithQuotes) {
  Comparison c = drifting();
  c.training = {{"model", "it's"}, {"dataset", "synthetic"}, {"epochs_wanted", 1}, {"batch", 64}};
  for (ComparedRun& r : c.runs)
    if (r.rule.label == "eager") r = failed(r, "it hung");
  const std::string script = plot_script(c, "a.svg");
  EXPECT_NE(script.find("'it''s on synthetic"), std::string::npos) << script;
  EXPECT_NE(script.find("set label 10 ' failed' at 0,4"), std::string::npos) << script;
  EXPECT_NE(script.find("\n3 1900 950 2850 "), std::string::npos) << script;
  EXPECT_EQ(script.find("\n4 0 "), std::string::npos) << script;
}

TEST(DescribeSlowdown, NamesEachWorker) {
  EXPECT_EQ(describe_slowdown("none"), "no worker slowed");
  EXPECT_EQ(describe_slowdown("1:4"), "worker 1 slowed 4x");
  EXPECT_EQ(describe_slowdown("1:4,0:2.5"), "worker 1 slowed 4x, worker 0 slowed 2.5x");
}

}  // namespace
}  // namespace prorata
