// The models that are shipped in perfmodels/: shares without timing anything.
#include "driver/speed/check.h"
#include "driver/speed/table.h"
#include "models/specification.h"
#include "scheduler/partition.h"
#include "tests/starpu_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

struct Shipped {
  const char* host;
  const char* model;
  double slowdown;  // of worker 1
};

void PrintTo(const Shipped& s, std::ostream* out) { *out << s.host << ", worker 1 " << s.slowdown << " times slower"; }

class Perfmodels : public WithStarpu, public ::testing::WithParamInterface<Shipped> {
 protected:
  Perfmodels() {
    std::string name = (fs::temp_directory_path() / "prorata-models-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
    // StarPU writes into the folder.
    fs::copy(fs::path(PRORATA_PERFMODELS) / GetParam().host, folder_, fs::copy_options::recursive);
    ::setenv("STARPU_PERF_MODEL_DIR", folder_.c_str(), 1);
    ::setenv("STARPU_HOSTNAME", GetParam().host, 1);
    if (GetParam().slowdown > 1)
      start(2, "prorata", {{1, GetParam().slowdown}});
    else
      start(2);
  }
  ~Perfmodels() override {
    stop();
    fs::remove_all(folder_);
  }

 private:
  fs::path folder_;
};

// What StarPU's files say, read as text: seconds by codelet, CPU worker, implementation, footprint.
using Numbers = std::map<std::tuple<std::string, int, unsigned, std::uint32_t>, double>;

Numbers read_files() {
  Numbers numbers;
  for (const Codelet* codelet : Codelet::all()) {
    std::ifstream file(model_directory() / "codelets" / "45" / ("prorata_" + codelet->name() + "." + model_host()));
    int device = -1;
    unsigned implementation = 0;
    for (std::string line; std::getline(file, line);) {
      std::sscanf(line.c_str(), "# Model for cpu%d_impl%u", &device, &implementation);
      unsigned footprint = 0, n = 0;
      unsigned long size = 0;
      double flops = 0, mean = 0, deviation = 0, sum = 0, sum2 = 0;
      if (std::sscanf(line.c_str(), "%8x %lu %le %le %le %le %le %u", &footprint, &size, &flops, &mean, &deviation,
                      &sum, &sum2, &n) == 8)
        numbers[{codelet->name(), device, implementation, footprint}] = mean * 1e-6;
    }
  }
  return numbers;
}

// Of a mini-batch: each task by the implementation that is fastest there.
double seconds_by_files(const Numbers& numbers, const std::vector<TrainingShapes::Task>& tasks, int device) {
  double sum = 0;
  for (const TrainingShapes::Task& task : tasks) {
    double best = INFINITY;
    for (unsigned i = 0; i < task.codelet->cpu().size(); ++i) {
      const auto found = numbers.find({task.codelet->name(), device, i, task.footprint});
      if (found != numbers.end()) best = std::min(best, found->second);
    }
    sum += best;
  }
  return sum;
}

TEST_P(Perfmodels, ShareOutAsTheirNumbersSay) {
  Network network(read_network_spec(find_network(GetParam().model)), 1);
  const auto record = read_record(GetParam().model);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->homogeneous_cpu, GetParam().slowdown == 1);
  const TrainingShapes shapes(network, record->batches, Overlap::possible);
  const Entries entries = read_entries(shapes);
  EXPECT_TRUE(find_implausible(shapes, entries, &*record).empty());

  Replica replica(network, record->batches.back(), Overlap::possible, [](Replica&) {});
  replica.price_training({}, record->batches);
  const Numbers numbers = read_files();
  std::vector<double> seconds;
  for (std::size_t b = 0; b < shapes.batches().size(); ++b)
    for (int w = 0; w < 2; ++w) {
      const double recorded = seconds_by_files(numbers, shapes.tasks(b), record->homogeneous_cpu ? 0 : w);
      const auto batch = static_cast<std::uint32_t>(shapes.batches()[b]);
      EXPECT_NEAR(prorata_expected_seconds(0, w, static_cast<std::uint32_t>(GroupKind::train), batch) / recorded, 1,
                  1e-9);
      if (batch == 64) seconds.push_back(recorded);
    }
  ASSERT_EQ(seconds.size(), 2u);
  const auto shares = partition_count(seconds, 1000);
  const SpeedTable table = speed_table(shapes, entries, &*record, 64);
  for (std::size_t w = 0; w < 2; ++w)
    EXPECT_NEAR(*table.workers[w].share, static_cast<double>(shares[w]) / 1000, 0.0011);
  // The figures are files, not timings; but they were measured. A kernel that is slowed F times takes F times its time,
  // and up to half as much again: after the pause its data are no longer near.
  EXPECT_LT(*table.workers[1].share, 1 / (1 + GetParam().slowdown) + 0.03);
  EXPECT_GT(*table.workers[1].share, 1 / (1 + 1.5 * GetParam().slowdown));
}

TEST_P(Perfmodels, SpeedGrowsWithTheBatch) {
  Network network(read_network_spec(find_network(GetParam().model)), 1);
  const auto record = read_record(GetParam().model);
  ASSERT_TRUE(record);
  const TrainingShapes shapes(network, record->batches, Overlap::possible);
  const Entries entries = read_entries(shapes);
  ASSERT_GE(record->batches.size(), 15u);
  for (int w = 0; w < 2; ++w) {
    const double at_1 = price(shapes, entries, shapes.index_of(1), w);
    const double at_64 = price(shapes, entries, shapes.index_of(64), w);
    EXPECT_GT(at_64, at_1);
    EXPECT_LT(at_64, 64 * at_1);
  }
}

std::vector<Shipped> all_shipped() {
  std::vector<Shipped> all;
  for (const char* model : {"mlp", "lenet5", "vgg-small", "resnet20", "hyperspectral-cnn"})
    for (const double slowdown : {1.0, 4.0}) all.push_back({"zen5-2core", model, slowdown});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Hosts, Perfmodels, ::testing::ValuesIn(all_shipped()), [](const auto& i) {
  std::string name = i.param.model;
  std::ranges::replace(name, '-', '_');
  return name + (i.param.slowdown > 1 ? "_slowed" : "");
});

}  // namespace
}  // namespace prorata::test
