// `prorata calibrate`, and what `devices` and `train` make of it.
#include "tests/cli/program.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

class Calibrated : public Program {
 protected:
  using Variables = std::map<std::string, std::string>;

  Variables variables(Variables more = {}) const {
    more.insert({"STARPU_PERF_MODEL_DIR", (folder() / "models").string()});
    more.insert({"STARPU_HOSTNAME", "here"});
    more.insert({"STARPU_NCPU", "2"});
    return more;
  }
  Output calibrate(std::vector<std::string> more = {}, const Variables& v = {}) {
    std::vector<std::string> arguments{"calibrate", "--model", "small.toml"};
    if (std::find(more.begin(), more.end(), "--batches") == more.end())
      arguments.insert(arguments.end(), {"--batches", "16,32,64,128"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, variables(v));
  }
  nlohmann::json devices(std::vector<std::string> more = {}, std::string* said = nullptr) {
    std::vector<std::string> arguments{"devices", "--model", "small.toml", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Output o = run(arguments, variables());
    EXPECT_EQ(o.code, 0) << o.err;
    if (said) *said = o.err;
    return nlohmann::json::parse(o.out);
  }
  fs::path record(const std::string& host = "here") const {
    return folder() / "models" / ("prorata-small." + host + ".json");
  }
  // StarPU's file of a codelet's model.
  fs::path model(const std::string& codelet, const std::string& host = "here") const {
    for (const auto& entry : fs::recursive_directory_iterator(folder() / "models"))
      if (entry.path().filename() == "prorata_" + codelet + "." + host) return entry.path();
    return {};
  }
  std::size_t model_files() const {
    std::size_t count = 0;
    if (fs::exists(folder() / "models"))
      for (const auto& entry : fs::recursive_directory_iterator(folder() / "models"))
        count += entry.path().filename().string().starts_with("prorata");
    return count;
  }

  // Every entry of this device becomes a thousand times as fast: each codelet's, at each size. How many they were.
  std::size_t make_faster(const std::string& host, const std::string& device) const {
    std::size_t count = 0;
    for (const auto& file : fs::recursive_directory_iterator(folder() / "models")) {
      const std::string name = file.path().filename().string();
      if (!name.starts_with("prorata_") || !name.ends_with("." + host)) continue;
      std::istringstream lines(read(file.path()));
      std::string out;
      bool of_device = false;
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# Model for ")) of_device = line.starts_with("# Model for " + device + "_");
        unsigned footprint = 0, n = 0;
        unsigned long size = 0;
        double flops = 0, mean = 0, deviation = 0, sum = 0, sum2 = 0;
        if (of_device && std::sscanf(line.c_str(), "%8x %lu %le %le %le %le %le %u", &footprint, &size, &flops, &mean,
                                     &deviation, &sum, &sum2, &n) == 8) {
          char entry[200];
          std::snprintf(entry, sizeof(entry), "%08x\t%lu\t%e\t%e\t%e\t%e\t%e\t%u", footprint, size, flops, mean / 1000,
                        deviation / 1000, sum / 1000, sum2 / 1e6, n);
          line = entry;
          ++count;
        }
        out += line + "\n";
      }
      std::ofstream(file.path(), std::ios::binary) << out;
    }
    return count;
  }
};

TEST_F(Calibrated, EveryWorkerHasAPointForEachBatchSize) {
  const Output o = calibrate({"--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto j = nlohmann::json::parse(o.out);
  ASSERT_EQ(j["workers"].size(), 2u);
  double share = 0;
  for (const auto& w : j["workers"]) {
    EXPECT_EQ(w["kind"], "cpu");
    ASSERT_EQ(w["points"].size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& p = w["points"][i];
      EXPECT_EQ(p["batch"], 16 << i);
      EXPECT_GT(p["seconds"], 0);
      EXPECT_NEAR(p["samples_per_second"].get<double>() * p["seconds"].get<double>() / (16 << i), 1, 1e-9);
      EXPECT_GE(p["measurements"], 10);
      EXPECT_GE(p["spread"], 0);
    }
    share += w["share"].get<double>();
  }
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_TRUE(fs::exists(record()));

  const std::string table = run({"devices", "--model", "small.toml"}, variables()).out;
  EXPECT_NE(table.find("worker 1"), std::string::npos);
  EXPECT_NE(table.find("samples/s"), std::string::npos);
}

TEST_F(Calibrated, DevicesSaysTheSameAndWritesNothing) {
  const auto measured = nlohmann::json::parse(calibrate({"--json"}).out);
  std::map<fs::path, fs::file_time_type> before;
  for (const auto& entry : fs::recursive_directory_iterator(folder() / "models"))
    before[entry.path()] = entry.last_write_time();
  const auto shown = devices();
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_TRUE(shown["workers"][w].contains("core"));
    ASSERT_EQ(shown["workers"][w]["points"].size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      const double a = measured["workers"][w]["points"][i]["seconds"], b = shown["workers"][w]["points"][i]["seconds"];
      EXPECT_NEAR(b / a, 1, 1e-5);  // StarPU's files have seven digits
    }
    EXPECT_NEAR(shown["workers"][w]["share"].get<double>(), measured["workers"][w]["share"].get<double>(), 0.001);
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder() / "models"))
    EXPECT_EQ(before[entry.path()], entry.last_write_time()) << entry.path();
}

TEST_F(Calibrated, DevicesAsksForCalibrationWhereNothingIsKnown) {
  std::string said;
  const auto shown = devices({}, &said);
  EXPECT_NE(said.find("prorata calibrate"), std::string::npos);
  EXPECT_TRUE(shown["workers"][0]["share"].is_null());
  EXPECT_TRUE(shown["workers"][0]["points"].empty());
  EXPECT_EQ(model_files(), 0u);
}

TEST_F(Calibrated, SlowedWorkersHaveModelsOfTheirOwn) {
  ASSERT_EQ(calibrate({"--slowdown", "1:50", "--repetitions", "10"}).code, 0);
  EXPECT_TRUE(fs::exists(record("here-slowed-1x5000")));
  EXPECT_FALSE(fs::exists(record()));
  const auto shown = devices({"--slowdown", "1:50"});
  EXPECT_GT(shown["workers"][0]["share"], 0.9);
  EXPECT_GT(shown["workers"][1]["points"][0]["seconds"], shown["workers"][0]["points"][0]["seconds"]);
}

TEST_F(Calibrated, Tf32HasModelsOfItsOwn) {
  ASSERT_EQ(calibrate({"--tf32", "--slowdown", "1:2", "--repetitions", "10"}).code, 0);
  EXPECT_TRUE(fs::exists(record("here-slowed-1x200-tf32")));
  // Unlike cores, as the user says: whoever asks for --tf32 later does as the calibration with it did.
  ASSERT_EQ(calibrate({"--tf32", "--repetitions", "10"}, {{"STARPU_PERF_MODEL_HOMOGENEOUS_CPU", "0"}}).code, 0);
  EXPECT_TRUE(fs::exists(record("here-tf32")));
  EXPECT_FALSE(fs::exists(record()));
  std::string said;
  EXPECT_TRUE(devices({"--tf32"}, &said)["workers"][1]["share"].is_number());
  EXPECT_EQ(said.find("other circumstances"), std::string::npos) << said;
  EXPECT_TRUE(devices()["workers"][1]["share"].is_null());
}

TEST_F(Calibrated, StarpuReadsWhatWasWritten) {
  ASSERT_EQ(calibrate().code, 0);
  const std::string command = "STARPU_NCPU=2 STARPU_PERF_MODEL_DIR=" + (folder() / "models").string() +
                              " STARPU_HOSTNAME=here starpu_perfmodel_display -s prorata_gather_batch > " +
                              (folder() / "display").string() + " 2>&1";
  if (std::system("command -v starpu_perfmodel_display > /dev/null") != 0) GTEST_SKIP() << "no starpu-tools here";
  ASSERT_EQ(std::system(command.c_str()), 0) << read(folder() / "display");
  const std::string shown = read(folder() / "display");
  EXPECT_NE(shown.find("cpu0_impl0"), std::string::npos) << shown;
}

TEST_F(Calibrated, TrainingAtACalibratedSizeMeasuresNothing) {
  // 40 divides the 6000 samples of the training set and the 1000 of the test set: there is no mini-batch of another
  // size.
  ASSERT_EQ(calibrate({"--batches", "20,40"}).code, 0);
  ASSERT_FALSE(model("conv2d_forward").empty());
  const std::string before = read(model("conv2d_forward"));
  const Output o = train({"--epochs", "1", "--batch", "40"}, variables());
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err.find("warning"), std::string::npos) << o.err;
  EXPECT_GT(summary()["workers"][0]["expected_samples_per_second"], 0);
  EXPECT_EQ(read(model("conv2d_forward")), before);
}

TEST_F(Calibrated, StaleRecordIsNoticedAndTrainingGoesOn) {
  ASSERT_EQ(calibrate().code, 0);
  std::string text = read(record());
  text = std::regex_replace(text, std::regex("\"cpu\": \"[^\"]*\""), "\"cpu\": \"Z80\"");
  std::ofstream(record()) << text;
  const Output o = train({"--epochs", "1"}, variables());
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.err.find("Z80"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("prorata calibrate"), std::string::npos) << o.err;
  std::ofstream(record()) << "{";
  const Output broken = train({"--epochs", "1", "--overwrite"}, variables());
  EXPECT_EQ(broken.code, 0);
  EXPECT_NE(broken.err.find(record().filename().string()), std::string::npos) << broken.err;
}

TEST_F(Calibrated, PoisonedEntryIsFoundAndMeasuredAnew) {
  ASSERT_EQ(calibrate({"--slowdown", "1:8", "--repetitions", "10"}).code, 0);
  const std::vector<std::string> slowed = {"--slowdown", "1:8"};
  const double share = devices(slowed)["workers"][1]["share"];

  ASSERT_GT(make_faster("here-slowed-1x800", "cpu1"), 0u);
  std::string said;
  EXPECT_GT(devices(slowed, &said)["workers"][1]["share"], 0.9);
  EXPECT_NE(said.find("worker 1 at batch"), std::string::npos) << said;

  const Output o = calibrate({"--slowdown", "1:8", "--check", "--repetitions", "10"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("measured anew"), std::string::npos) << o.err;
  const double again = devices(slowed, &said)["workers"][1]["share"];
  EXPECT_EQ(said.find("worker 1 at batch"), std::string::npos) << said;
  EXPECT_LT(again, 0.5);
  EXPECT_LT(share, 0.5);
}

TEST_F(Calibrated, TrainingLeavesAPoisonedEntryOutForGood) {
  // At 40 nothing else is missing that would have StarPU measure and write; and ws asks the models nothing.
  for (const char* policy : {"prorata", "ws"}) {
    ASSERT_EQ(calibrate({"--batches", "20,40"}).code, 0);
    ASSERT_GT(make_faster("here", "cpu0"), 0u);
    for (const bool first : {true, false}) {
      const Output o = train({"--epochs", "1", "--batch", "40", "--overwrite"}, variables({{"STARPU_SCHED", policy}}));
      ASSERT_EQ(o.code, 0) << o.err;
      // A thousandth of what such tasks take. What is measured anew may be found again, where other programs disturb
      // it.
      EXPECT_EQ(o.err.find(": 0.0 us, where the calibration says") != std::string::npos, first)
          << policy << ": " << o.err;
    }
  }
}

TEST_F(Calibrated, SignalKeepsWhatIsDone) {
  bool sent = false;
  const Output o = run({"calibrate", "--model", "small.toml", "--repetitions", "100000", "--precision", "0.0000001"},
                       variables(), [&](pid_t program) {
                         // The first line is of the first pass, which sees every size.
                         const std::string said = read(folder() / "stderr");
                         if (!sent && std::count(said.begin(), said.end(), '\n') > 3) sent = kill(program, SIGINT) == 0;
                       });
  EXPECT_EQ(o.code, 130);
  EXPECT_TRUE(fs::exists(record()));
  EXPECT_GT(devices()["workers"][0]["points"].size(), 10u);
}

TEST_F(Calibrated, RefusesWhatMakesNoSense) {
  for (const char* batches : {"", "0", "-4", "1,,2", "8,", "x", "1.5", "65537", "99999999999"})
    for (const char* command : {"calibrate", "devices"})
      expect_refused(run({command, "--model", "small.toml", "--batches", batches}), {"--batches", "65536"});
  expect_refused(run({"calibrate", "--repetitions", "3"}), {"--repetitions"});
  for (const char* precision : {"0", "-1", "nan", "2", "x"})
    expect_refused(run({"calibrate", "--precision", precision}), {"--precision"});
  for (const char* command : {"calibrate", "devices"}) {
    expect_refused(run({command, "--model", "nonesuch"}), {"nonesuch", "lenet5"});
    expect_refused(run({command, "--model", "none.toml"}), {"none.toml"});
    expect_refused(run({command, "--model", "small.toml", "--slowdown", "7:2"}, variables()), {"--slowdown", "7"});
  }
  write("file", "x");
  expect_refused(run({"calibrate", "--model", "small.toml"}, {{"STARPU_PERF_MODEL_DIR", "file/below"}}),
                 {"STARPU_PERF_MODEL_DIR", "file/below"});
}

}  // namespace
}  // namespace prorata::test
