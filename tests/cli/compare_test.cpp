// `prorata compare` as a user runs it: what it refuses, what it leaves behind, and that its arithmetic follows from its
// runs.
#include "tests/cli/program.h"

#include <csignal>
#include <set>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Compare : public Program {
 protected:
  static Words arguments(const Words& more) {
    Words all{"compare", "--model", "small.toml", "--dataset", "synthetic", "--out", "cmp"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Output compare(const Words& more) { return run(arguments(more), {{"STARPU_NCPU", "2"}}); }
  Json result() const { return Json::parse(read(folder() / "cmp" / "compare.json")); }
  Json runs() const { return result()["runs"]; }
};

const Json& row(const Json& experiment, const std::string& label) {
  for (const Json& r : experiment["rows"])
    if (r["label"] == label) return r;
  throw std::runtime_error("no row " + label);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values.at((n - 1) / 2) + values.at(n / 2)) / 2;
}

TEST_F(Compare, RefusesWhatItCannotCompare) {
  expect_refused(compare({"--schedulers", "eager,magic"}), {"--schedulers", "magic", "eager", "dmda"});
  expect_refused(compare({"--balances", "fair"}), {"--balances", "fair", "uniform", "prorata-count", "dynamic"});
  expect_refused(compare({"--balances", "none", "--schedulers", "none"}), {"--balances", "--schedulers"});
  for (const char* slowdown : {"1", "1:0.5", "1:2,1:3", "a:2", "fast"})
    expect_refused(compare({"--slowdown", slowdown}), {"--slowdown", slowdown});
  expect_refused(compare({"--slowdown", "7:2"}), {"--slowdown", "7"});
  for (const Words& w :
       std::vector<Words>{{"--repeats", "0"}, {"--warmup", "-1"}, {"--timeout", "0"}, {"--epochs", "0"}})
    expect_refused(compare(w), {w[0]});
  expect_refused(run({"compare", "--model", "nonesuch"}), {"nonesuch"});
  expect_refused(run({"compare", "--dataset", "mnist"}), {"--data"});
  expect_refused(run(arguments({}), {{"STARPU_NCPU", "abc"}}), {"STARPU_NCPU"});
  EXPECT_FALSE(fs::exists(folder() / "cmp"));
  fs::create_directory(folder() / "cmp");
  write("cmp/mine", "x");
  expect_refused(compare({}), {"cmp", "--overwrite"});
}

TEST_F(Compare, RunsAllRulesInTurnsAndItsFiguresFollowFromTheRuns) {
  const Output o = compare({"--epochs", "1", "--batch", "100", "--slowdown", "1:4", "--slowdown", "none", "--repeats",
                            "2", "--schedulers", "eager,dmda", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json j = Json::parse(o.out);
  EXPECT_EQ(j, result());
  EXPECT_EQ(j["training"]["model"], "small");
  EXPECT_EQ(j["training"]["batch"], 100);
  EXPECT_EQ(j["training"]["tf32"], false);

  // In turns: A B C A B C, of each experiment.
  const std::size_t rules = row(j["summary"][0], "eager")["runs"] == 2 ? j["summary"][0]["rows"].size() : 0;
  ASSERT_EQ(j["runs"].size(), 2 * 2 * rules);
  for (std::size_t i = 0; i < j["runs"].size(); ++i) {
    EXPECT_EQ(j["runs"][i]["label"], j["runs"][i % rules]["label"]);
    EXPECT_EQ(j["runs"][i]["slowdown"], i / rules % 2 == 0 ? "1:4" : "none");
    EXPECT_EQ(j["runs"][i]["seed"], i / (2 * rules) + 1);
    EXPECT_TRUE(j["runs"][i]["error"].is_null());
  }

  std::map<std::pair<std::string, int>, std::map<std::string, double>> speed;
  for (const Json& r : j["runs"]) speed[{r["slowdown"], r["seed"]}][r["label"]] = r["samples_per_second"];
  for (const Json& e : j["summary"]) {
    std::vector<double> to_sum, to_uniform, to_ceiling, ours_to_it;
    for (const int seed : {1, 2}) {
      auto& s = speed[{e["slowdown"], seed}];
      const double sum = s["worker 0 alone"] + s["worker 1 alone"];
      const double least = std::min(s["worker 0 alone"], s["worker 1 alone"]);
      to_sum.push_back(s["dmda"] / sum);
      to_uniform.push_back(s["dmda"] / s["uniform"]);
      to_ceiling.push_back(s["dmda"] / s["uniform"] / (sum / (2 * least)));
      ours_to_it.push_back(s["prorata-count"] / s["dmda"]);
    }
    const Json& dmda = row(e, "dmda");
    EXPECT_NEAR(dmda["relative_to_sum_of_speeds"], median(to_sum), 1e-9);
    EXPECT_NEAR(dmda["relative_to_uniform"], median(to_uniform), 1e-9);
    EXPECT_NEAR(dmda["relative_to_ceiling"], median(to_ceiling), 1e-9);
    EXPECT_NEAR(dmda["ours_relative_to_it"]["prorata-count"], median(ours_to_it), 1e-9);
  }
}

TEST_F(Compare, StartsEveryRunWithItsRuleItsModelsAndTheCommonOptions) {
  write("run.toml", "momentum = 0.5\nslowdown = [\"1:2\", \"none\"]\n");
  const Output o = compare({"--config", "run.toml", "--epochs", "1", "--batch", "100", "--lr", "0.03", "--repeats", "1",
                            "--warmup", "0", "--schedulers", "eager"});
  ASSERT_EQ(o.code, 0) << o.err;
  int found = 0;
  std::set<std::string> rules;
  for (const auto& entry : fs::recursive_directory_iterator(folder() / "cmp" / "runs")) {
    if (entry.path().filename() != "summary.json") continue;
    ++found;
    const Json s = Json::parse(read(entry.path()));
    SCOPED_TRACE(entry.path().string());
    EXPECT_EQ(s["learning_rate"], 0.03);
    EXPECT_EQ(s["momentum"], 0.5);
    EXPECT_EQ(s["batch"], 100);
    EXPECT_EQ(s["epochs"], 1);
    EXPECT_EQ(s["deterministic"], false);
    const bool alone = s["workers"].size() == 1;
    const bool slowed = entry.path().string().find("1x2") != std::string::npos;
    double most = 1;
    for (const Json& w : s["workers"]) most = std::max(most, w["slowdown"].get<double>());
    const bool of_worker_0 = entry.path().string().find("worker-0-alone") != std::string::npos;
    EXPECT_EQ(most, slowed && !of_worker_0 ? 2 : 1);
    if (!alone) rules.insert(s["scheduler"].get<std::string>() + " " + s["balance"].get<std::string>());
  }
  EXPECT_TRUE(rules.count("eager prorata"));
  for (const char* balance : {"prorata uniform", "prorata prorata", "prorata dynamic"})
    EXPECT_TRUE(rules.count(balance));
  EXPECT_EQ(found, static_cast<int>(runs().size()));
  for (const Json& r : runs()) EXPECT_TRUE(r["error"].is_null());
  // Models of its own for each, and none of them the user's.
  for (const char* rule : {"eager", "uniform", "prorata-count", "worker-1-alone"})
    for (const char* slowdown : {"1x2", "none"})
      EXPECT_TRUE(fs::is_directory(folder() / "cmp" / "models" / slowdown / rule)) << slowdown << " " << rule;
}

TEST_F(Compare, LeavesATableAndWhereItCanAPicture) {
  const Output o = compare({"--epochs", "1", "--repeats", "1", "--schedulers", "none", "--balances", "uniform"});
  ASSERT_EQ(o.code, 0) << o.err;
  const std::string table = read(folder() / "cmp" / "compare.txt");
  EXPECT_EQ(o.out.rfind(table, 0), 0u);
  for (const char* word : {"small on synthetic", "worker 1 slowed 4x", "worker 0 alone", "uniform", "samples/s"})
    EXPECT_NE(table.find(word), std::string::npos) << word;
  // Either the whole picture, or the one reason not to have one.
  const bool picture = fs::exists(folder() / "cmp" / "compare.svg");
  EXPECT_NE(picture, o.err.find("gnuplot is not installed") != std::string::npos) << o.err;
  if (!picture) return;
  const std::string svg = read(folder() / "cmp" / "compare.svg");
  EXPECT_NE(svg.find("worker 0 alone"), std::string::npos) << o.err;
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
}

TEST_F(Compare, SaysWhereThereIsNoGnuplotAndIsDoneAllTheSame) {
  const Output o = run(
      arguments({"--epochs", "1", "--repeats", "1", "--warmup", "0", "--schedulers", "none", "--balances", "uniform"}),
      {{"STARPU_NCPU", "1"}, {"PATH", "/nowhere"}});
  // Worker 1, which the usual experiment slows, is not there.
  expect_refused(o, {"--slowdown"});
  const Output again = run(arguments({"--epochs", "1", "--repeats", "1", "--warmup", "0", "--schedulers", "none",
                                      "--balances", "uniform", "--slowdown", "none"}),
                           {{"PATH", "/nowhere"}});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("gnuplot-nox"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder() / "cmp" / "compare.svg"));
}

TEST_F(Compare, ReportsARunThatFailsAndGoesOn) {
  // A file lies where one of the runs would put its result.
  fs::create_directories(folder() / "cmp/runs/1x4/uniform");
  write("cmp/runs/1x4/uniform/seed-1", "x");
  const Output o = compare({"--overwrite", "--epochs", "1", "--repeats", "2", "--warmup", "0", "--schedulers", "none"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("uniform failed 1 of 2 times"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("seed-1: is a file"), std::string::npos) << o.out;
  for (const Json& r : runs()) {
    EXPECT_EQ(r["error"].is_null(), r["label"] != "uniform" || r["seed"] != 1);
    EXPECT_EQ(r["relative_to_uniform"].is_null(), r["seed"] == 1);
  }
  const Json j = result();
  const Json& uniform = row(j["summary"][0], "uniform");
  EXPECT_EQ(uniform["failed"], 1);
  EXPECT_EQ(uniform["relative_to_uniform"], 1);
}

TEST_F(Compare, EndsARunThatDoesNotEnd) {
  const Output o = compare({"--epochs", "100000", "--timeout", "1", "--repeats", "3", "--warmup", "0", "--schedulers",
                            "none", "--balances", "dynamic"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.out.find("dynamic failed 3 of 3 times: not done after 1 s (--timeout)"), std::string::npos) << o.out;
  EXPECT_NE(runs().back()["error"].get<std::string>().find("not tried again"), std::string::npos);
}

TEST_F(Compare, StopsCleanlyWithWhatIsDone) {
  const fs::path json = folder() / "cmp" / "compare.json";
  bool sent = false;
  const Output o = run(arguments({"--epochs", "1", "--repeats", "1000", "--warmup", "0", "--schedulers", "eager"}),
                       {{"STARPU_NCPU", "2"}}, [&](pid_t program) {
                         if (sent || !fs::exists(json)) return;
                         sent = kill(program, SIGINT) == 0;
                       });
  EXPECT_EQ(o.code, 128 + SIGINT);
  EXPECT_EQ(result()["stopped_by"], "SIGINT");
  EXPECT_GE(runs().size(), 1u);
  EXPECT_LT(runs().size(), 1000u);
  for (const Json& r : runs()) EXPECT_TRUE(r["error"].is_null());
  EXPECT_NE(o.out.find("stopped early by SIGINT"), std::string::npos) << o.out;
}

}  // namespace
}  // namespace prorata::test
