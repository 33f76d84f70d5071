// Training on an OpenCL device beside CPU workers. On a machine without a GPU the device is PoCL's: the processor under
// another driver, with a memory of its own as far as StarPU and the program can tell.
#include "codelets/device.h"
#include "tests/cli/program.h"

#include <array>
#include <csignal>
#include <regex>

namespace prorata::test {
namespace {

// Of all platforms; 0 where built without OpenCL.
int opencl_devices() {
  int all = 0;
#if defined(PRORATA_OPENCL)
  std::array<cl_platform_id, 16> platforms{};
  cl_uint count = 0;
  if (clGetPlatformIDs(platforms.size(), platforms.data(), &count) != CL_SUCCESS) return 0;
  for (cl_uint p = 0; p < std::min<cl_uint>(count, platforms.size()); ++p)
    if (cl_uint devices = 0; clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) == CL_SUCCESS)
      all += static_cast<int>(devices);
#endif
  return all;
}

TEST_F(Program, TestsEveryDeviceAndSaysWhatIsNotThere) {
  const Output o = run({"selftest", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto result = nlohmann::json::parse(o.out);
  bool cpu = false;
  int opencl = 0;
  nlohmann::json kernels;
  for (const auto& d : result["devices"]) {
    cpu |= d["device"] == "cpu" && d["result"] == "right" && d["checks"] > 1000;
    EXPECT_EQ(d["result"] == "not tested", !d["reason"].get<std::string>().empty()) << d;
    if (d["device"] == "opencl" && d["result"] != "not tested") {
      EXPECT_EQ(d["number"], opencl++);
      EXPECT_FALSE(d["name"].get<std::string>().empty()) << d;
      EXPECT_EQ(d["checks"], kernels["checks"]) << "each device is tested as much as the kernels are";
    }
    if (d["device"] == "kernels") kernels = d;
  }
  EXPECT_TRUE(cpu) << o.out;
  EXPECT_EQ(opencl, opencl_devices());
}

#if defined(PRORATA_CUDA)
TEST_F(Program, BuiltForCudaRunsWithoutADeviceAndSaysSoOnce) {
  // As on a machine without a GPU, wherever the test runs.
  std::map<std::string, std::string> environment{{"CUDA_VISIBLE_DEVICES", "-1"}, {"STARPU_NCUDA", ""}};
  const Output o = train({"--epochs", "1"}, environment);
  ASSERT_EQ(o.code, 0) << o.err;
  const std::string said = "no CUDA device found";
  const auto at = o.err.find(said);
  ASSERT_NE(at, std::string::npos) << o.err;
  EXPECT_EQ(o.err.find(said, at + 1), std::string::npos) << o.err;
  EXPECT_EQ(summary()["workers"].size(), 1u);

  environment["STARPU_NCUDA"] = "0";
  const Output wanted = train({"--epochs", "1", "--overwrite"}, environment);
  ASSERT_EQ(wanted.code, 0) << wanted.err;
  EXPECT_EQ(wanted.err.find(said), std::string::npos) << wanted.err;
}
#endif

#if defined(PRORATA_OPENCL)

class Device : public Program {
 protected:
  void SetUp() override {
    if (opencl_devices() == 0) GTEST_SKIP() << "this machine has no OpenCL device";
  }

  // With one OpenCL worker and as many CPU workers.
  static std::map<std::string, std::string> with_cpus(const char* cpus) {
    return {{"STARPU_NCPU", cpus},
            {"STARPU_NOPENCL", "1"},
            {"STARPU_OPENCL_ON_CPUS", "1"},
            {"POCL_MAX_PTHREAD_COUNT", "1"}};
  }

  nlohmann::json worker(const std::string& kind) const {
    const auto s = summary();
    for (const auto& w : s["workers"])
      if (w["kind"] == kind) return w;
    return nullptr;
  }
};

TEST_F(Device, TrainsBesideACpuWorker) {
  // Uniform: each does its half, however much slower it is.
  const Output o = train({"--epochs", "2", "--batch", "64", "--balance", "uniform"}, with_cpus("1"));
  ASSERT_EQ(o.code, 0) << o.err;
  const auto s = summary();
  ASSERT_EQ(s["workers"].size(), 2u);
  EXPECT_EQ(s["samples"], 12000);
  EXPECT_GE(worker("opencl")["minibatches"], 80);
  EXPECT_GE(worker("cpu")["minibatches"], 80);
  EXPECT_NE(worker("opencl")["memory_node"], worker("cpu")["memory_node"]);

  // No more travels than has to: docs/devices.md. In one run of some forty a layer's gradient came home twice, where
  // the policy's wish to have it and the task's own met in StarPU; hence the parameters' size once more.
  const std::uint64_t minibatches = worker("opencl")["minibatches"], once = s["parameters"].get<std::uint64_t>() * 4;
  constexpr std::uint64_t kScore = 8;
  for (const auto& t : s["transfers"]) {
    const std::uint64_t bytes = t["bytes"];
    const bool to_device = t["from"] == 0;
    EXPECT_LE(bytes, minibatches * (once + (to_device ? 0 : kScore)) + once);
    EXPECT_GE(bytes, to_device ? once : minibatches * (once + kScore));
  }
  EXPECT_EQ(s["transfers"].size(), 2u);
}

TEST_F(Device, TrainsAloneAndItsParametersAreWhatTheCheckpointHas) {
  ASSERT_EQ(train({"--epochs", "2", "--batch", "64"}, with_cpus("0")).code, 0);
  const auto s = summary();
  ASSERT_EQ(s["workers"].size(), 1u);
  EXPECT_EQ(s["workers"][0]["kind"], "opencl");
  EXPECT_LE(s["transfers"][0]["bytes"], s["parameters"].get<std::uint64_t>() * 4);
  EXPECT_EQ(s["transfers"][1]["bytes"], s["minibatches"].get<std::uint64_t>() * 8);  // the scores
  // On a CPU worker, from the file.
  const Output o = run({"eval", "--model", "small.toml", "--dataset", "synthetic", "--checkpoint", "run", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NEAR(nlohmann::json::parse(o.out)["test_accuracy"].get<double>(), s["test_accuracy"].get<double>(), 1e-3);
}

TEST_F(Device, MakesTheSameStepsAsTheCpu) {
  const std::vector<std::string> options{"--epochs", "1", "--batch", "64", "--consistency", "bsp"};
  ASSERT_EQ(train(options, with_cpus("0")).code, 0);
  const double on_device = summary()["train_loss"];
  auto again = options;
  again.emplace_back("--overwrite");
  ASSERT_EQ(train(again).code, 0);
  EXPECT_NEAR(summary()["train_loss"].get<double>(), on_device, 1e-3 * on_device);
}

// The device's kernels are compiled before, not while the other worker trains on.
TEST_F(Device, IsNotStaleForItsFirstMinibatch) {
  ASSERT_EQ(train({"--epochs", "2", "--batch", "64"}, with_cpus("1")).code, 0);
  const auto w = worker("opencl");
  ASSERT_GE(w["minibatches"], 1);
  EXPECT_LT(w["staleness"]["max"], 100);
}

TEST_F(Device, IsLeftOutWhereItsMemoryIsTooSmall) {
  auto environment = with_cpus("1");
  environment["STARPU_LIMIT_OPENCL_MEM"] = "1";  // MiB
  const Output o = train({"--epochs", "1", "--batch", "64", "--balance", "uniform"}, environment);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("left out"), std::string::npos) << o.err;
  EXPECT_EQ(worker("opencl")["minibatches"], 0);
  EXPECT_EQ(worker("cpu")["minibatches"], 94);
  environment["STARPU_NCPU"] = "0";
  expect_refused(train({"--epochs", "1", "--batch", "64", "--overwrite"}, environment), {"memory", "--batch"});
}

// The windows of one image of this network need 272 MB in one piece.
TEST_F(Device, IsLeftOutWhereItCannotComputeAMinibatch) {
  write("windows.toml",
        "name = \"windows\"\ninput = [128, 128, 1]\nclasses = 3\n"
        "[[layer]]\ntype = \"conv2d\"\nchannels = 1\nkernel = 64\npadding = 32\n"
        "[[layer]]\ntype = \"max_pool\"\nwindow = 15\n"
        "[[layer]]\ntype = \"dense\"\nunits = 3\n");
  auto environment = with_cpus("1");
  environment["POCL_MEMORY_LIMIT"] = "1";  // GB, of which one piece may have a quarter
  // As soon as it listens, which is right after it has made its folder.
  int calls = 0;
  const auto stop_at_once = [&](pid_t pid) {
    if (std::filesystem::exists(folder() / "run") && ++calls == 2) kill(pid, SIGINT);
  };
  const std::vector<std::string> options{"train",   "--model", "windows.toml", "--dataset", "synthetic",
                                         "--batch", "1",       "--out",        "run"};
  const Output o = run(options, environment, stop_at_once);
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_NE(o.err.find("cannot compute a mini-batch"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("left out"), std::string::npos) << o.err;
}

TEST_F(Device, ThatFailsInMidRunEndsItAndLeavesTheLastCheckpoint) {
#if defined(PRORATA_FAILING_OPENCL)
  const std::vector<std::string> options{"--epochs", "2", "--batch", "64", "--checkpoint-every", "5"};
  auto environment = with_cpus("0");
  environment["LD_PRELOAD"] = PRORATA_FAILING_OPENCL;
  const Output o = train(options, environment);
  EXPECT_EQ(o.code, 1) << o.err;
  // Codelet, device, what of OpenCL's, and its code.
  EXPECT_TRUE(std::regex_search(o.err, std::regex("[a-z0-9_]+ on OpenCL 0[^\n]*: OpenCL: [^\n]* failed with " +
                                                  std::to_string(CL_DEVICE_NOT_AVAILABLE))))
      << o.err;
  const auto position = [&] { return nlohmann::json::parse(read(folder() / "run/checkpoint/state.json"))["position"]; };
  const std::uint64_t samples = position()["epoch_tally"]["samples"];
  EXPECT_GT(samples, 0u);
  EXPECT_EQ(samples % (5 * 64), 0u) << "of a checkpoint that was due, not of where it failed";
  const Output resumed = run({"train", "--resume", "--out", "run"}, with_cpus("0"));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(summary()["samples"], 12000);
#else
  GTEST_SKIP() << "a sanitizer wants to be loaded before anything that is preloaded";
#endif
}

// Its kind has a row in the file that says from where each device is near.
TEST_F(Device, IsUsedThoughTheFileOfItsBusIsDamaged) {
  auto environment = with_cpus("1");
  environment["STARPU_HOSTNAME"] = "here";
  ASSERT_EQ(run({"devices"}, environment).code, 0);
  const auto file = folder() / "models/bus/here.affinity";
  const std::string whole = read(file), head = "# GPU\tNUMA0\t\n";
  ASSERT_TRUE(whole.starts_with(head)) << whole;
  ASSERT_GT(whole.size(), head.size());
  write(file.string(), head);
  const Output o = run({"devices"}, environment);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find(file.string() + " is damaged"), std::string::npos) << o.err;
  EXPECT_EQ(read(file), whole);
}

TEST_F(Device, IsCalibrated) {
  const Output o = run({"calibrate", "--model", "small.toml", "--batches", "16,64", "--json"}, with_cpus("1"));
  ASSERT_EQ(o.code, 0) << o.err;
  const auto result = nlohmann::json::parse(o.out);
  ASSERT_EQ(result["workers"].size(), 2u);
  for (const auto& w : result["workers"]) {
    EXPECT_EQ(w["points"].size(), 2u) << w;
    EXPECT_TRUE(w["share"].is_number()) << w;
  }
}

#endif

}  // namespace
}  // namespace prorata::test
