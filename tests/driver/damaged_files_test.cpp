// Damaged files of performance models: whether we find just those that StarPU would abort on.
#include "driver/speed/damaged_files.h"
#include "tests/starpu_fixture.h"

#include <starpu.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBegin =
    "##################\n# Performance Model Version\n45\n\n"
    "####################\n# COMBs\n# number of combinations\n1\n"
    "####################\n# COMB_0\n# number of types devices\n1\n"
    "####################\n# DEV_0\n# device type (CPU - 0)\n0\n"
    "####################\n# DEV_0\n# device id \n0\n"
    "####################\n# DEV_0\n# number of cores \n1\n"
    "##########\n# number of implementations\n2\n";
constexpr const char* kImplementation =
    "#####\n# Model for cpu0_impl0 (Comb0)\n# number of entries\n2\n"
    "# sumlnx\tsumlnx2\t\tsumlny\t\tsumlnxlny\talpha\t\tbeta\t\tn\tminx\t\tmaxx\n"
    "0.000000e+00   \t0.000000e+00   \t0.000000e+00   \t0.000000e+00   \tnan            \t-nan           \t0\t0    \t0 "
    "  \n"
    "# a\t\tb\t\tc\nnan            \tnan            \tnan            \n"
    "# not multiple-regression-base\n0\n"
    "# hash\t\tsize\t\tflops\t\tmean (us)\tdev (us)\tsum\t\tsum2\t\tn\n"
    "19c7caeb\t512            \t0.000000e+00   \t1.985000e+01   \t8.920806e-07   \t6.352000e+02   \t1.260872e+04   "
    "\t32\n"
    "00e15e02\t64             \tnan            \t9.027500e+01   \t3.162980e-06   \t2.888800e+03   \t2.607864e+05   "
    "\t10\n\n";

std::string model() { return std::string(kBegin) + kImplementation + kImplementation; }

class DamagedModels : public WithStarpu {
 protected:
  DamagedModels() {
    std::string name = (fs::temp_directory_path() / "prorata-models-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    file_ = fs::path(name) / "model";
    start(1);
  }
  ~DamagedModels() override {
    stop();
    fs::remove_all(file_.parent_path());
  }

  // A child of ours tries, for StarPU aborts where it cannot.
  bool starpu_reads(const std::string& text) {
    std::ofstream(file_, std::ios::binary) << text;
    const pid_t child = fork();
    if (child == 0) {
      const rlimit none{0, 0};
      setrlimit(RLIMIT_CORE, &none);
      std::freopen("/dev/null", "w", stderr);
      starpu_perfmodel model{};
      starpu_perfmodel_load_file(file_.c_str(), &model);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  fs::path file_;
};

TEST_F(DamagedModels, EachPartOfOneIsTakenAsStarpuTakesIt) {
  const std::string whole = model();
  constexpr std::size_t kStep = 7, kEnd = 60;  // the last entry byte by byte, for a number that is cut is one, too
  std::size_t readable = 0;
  for (std::size_t size = 0; size <= whole.size(); size += size + kEnd < whole.size() ? kStep : 1) {
    const bool taken = starpu_reads(whole.substr(0, size));
    EXPECT_EQ(is_whole_model(whole.substr(0, size)), taken) << size << " of " << whole.size() << " bytes";
    readable += taken;
  }
  EXPECT_EQ(readable, 3u) << "the empty one, the whole one, and that without the empty line at its end";
}

TEST_F(DamagedModels, WhatIsNoModelIsTakenAsStarpuTakesIt) {
  const auto with = [](const std::string& old, const std::string& replacement) {
    std::string text = model();
    text.replace(text.find(old), old.size(), replacement);
    return text;
  };
  for (const std::string& text :
       {with("45", "44"), with("45", "forty-five"), with("1.985000e+01", "-1.985000e+01"), with("1.985000e+01", "nan"),
        with("1.985000e+01", "?"), std::string(500, '\0'), std::string("\n")}) {
    EXPECT_FALSE(is_whole_model(text)) << text;
    EXPECT_FALSE(starpu_reads(text)) << text;
  }
}

TEST(BusFiles, AreWholeWithAllThatStarpuMustFind) {
  const std::string config =
      "# Current configuration\n2 # Number of CPUs\n1 # Number of NUMA nodes\n1 # Number of CUDA devices\n"
      "1 # Number of OpenCL devices\n0 # Number of MIC devices\n";
  EXPECT_TRUE(is_whole_bus_config(config));
  EXPECT_TRUE(is_whole_bus_config(config.substr(0, config.find("OpenCL"))));
  EXPECT_FALSE(is_whole_bus_config(config.substr(0, config.find("CUDA"))));
  EXPECT_FALSE(is_whole_bus_config(""));

  EXPECT_TRUE(is_whole_bus_affinity("# GPU\tNUMA0\t\n0\t0\t\n0\t0\t\n", config));
  EXPECT_FALSE(is_whole_bus_affinity("# GPU\tNUMA0\t\n0\t0\t\n0\t", config));
  EXPECT_FALSE(is_whole_bus_affinity("# GPU\tNUMA0\t\n0\t0\t\n", config));
  EXPECT_FALSE(is_whole_bus_affinity("# G", config));
  EXPECT_FALSE(is_whole_bus_affinity("", config));
}

}  // namespace
}  // namespace prorata::test
