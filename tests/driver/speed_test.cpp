// Performance models of our own making: what is read from them, what follows for the shares, and which are disbelieved.
#include "driver/evaluation.h"
#include "driver/speed/check.h"
#include "driver/speed/table.h"
#include "models/errors.h"
#include "scheduler/partition.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::int32_t> kBatches = {8, 16, 32, 64, 128};
constexpr std::size_t kDefault = 3;  // of kBatches: 64

// Where no two tasks of the group share an entry: there made_up() would depend on which of the two comes last.
std::size_t position_of(const TrainingShapes& shapes, const std::string& codelet) {
  for (std::size_t p = 0; p < shapes.tasks(0).size(); ++p)
    if (shapes.tasks(0)[p].codelet->name() == codelet) return p;
  throw std::runtime_error("no task of " + codelet);
}

class Speed : public WithStarpu {
 protected:
  Speed() {
    std::string name = (fs::temp_directory_path() / "prorata-speed-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
    ::setenv("STARPU_PERF_MODEL_DIR", folder_.c_str(), 1);
    ::setenv("STARPU_HOSTNAME", "made-up", 1);
    ::setenv("STARPU_PERF_MODEL_HOMOGENEOUS_CPU", "0", 1);
  }
  ~Speed() override {
    stop();
    fs::remove_all(folder_);
  }

  // Task p takes (p + 1) * (20 + batch) us on worker 0, three times as long on worker 1 and by a second implementation.
  static double made_up(std::size_t position, std::int32_t batch, int worker, unsigned implementation) {
    return static_cast<double>(position + 1) * (20 + batch) * 1e-6 * (worker == 1 ? 3 : 1) * (implementation ? 3 : 1);
  }

  // Models of such times.
  void write_models(const NetworkSpec& spec) {
    with_shapes(spec, [](TrainingShapes& shapes) {
      for (std::size_t b = 0; b < kBatches.size(); ++b)
        for (std::size_t p = 0; p < shapes.tasks(b).size(); ++p)
          for (int w = 0; w < 2; ++w)
            for (unsigned i = 0; i < shapes.tasks(b)[p].codelet->cpu().size(); ++i)
              shapes.with_task(b, p, [&](starpu_task* t) { set_entry(t, w, i, {made_up(p, kBatches[b], w, i), 20}); });
    });
  }

  // The entry of the codelet's first task at batch b becomes `factor` times as large.
  void poison(const NetworkSpec& spec, std::size_t b, const std::string& codelet, int worker, double factor) {
    with_shapes(spec, [&](TrainingShapes& shapes) {
      const std::size_t p = position_of(shapes, codelet);
      shapes.with_task(b, p, [&](starpu_task* t) {
        set_entry(t, worker, 0, {made_up(p, kBatches[b], worker, 0) * factor, 20});
      });
    });
  }

  const fs::path& folder() const { return folder_; }

 private:
  // While StarPU runs with two workers.
  void with_shapes(const NetworkSpec& spec, const std::function<void(TrainingShapes&)>& use) {
    start(2);
    {
      Network network(spec, 1);
      TrainingShapes shapes(network, kBatches, Overlap::possible);
      use(shapes);
    }
    stop();
  }

  fs::path folder_;
};

TEST_F(Speed, EntriesThatWereSetAreThereInTheNextRun) {
  const NetworkSpec spec = small_mlp();
  write_models(spec);
  start(2);
  Network network(spec, 1);
  const TrainingShapes shapes(network, kBatches, Overlap::possible);
  const Entries entries = read_entries(shapes);
  for (std::size_t b = 0; b < kBatches.size(); ++b) {
    const std::size_t p = position_of(shapes, "softmax_cross_entropy");
    const TrainingShapes::Task& task = shapes.tasks(b)[p];
    for (int w = 0; w < 2; ++w) {
      const auto found = entries.find({task.codelet, w, 0, task.footprint});
      ASSERT_NE(found, entries.end());
      EXPECT_NEAR(found->second.seconds / made_up(p, kBatches[b], w, 0), 1, 1e-6);  // files have seven digits
      EXPECT_EQ(found->second.measurements, 20u);
    }
  }
}

TEST_F(Speed, PriceOfAGroupThatIsNotSubmittedIsThatOfItsEntries) {
  const NetworkSpec spec = every_layer();
  write_models(spec);
  start(2);
  Network network(spec, 1);
  const TrainingShapes shapes(network, kBatches, Overlap::possible);
  const Entries entries = read_entries(shapes);
  Replica replica(network, 128, Overlap::possible, [](Replica&) {});
  const auto expected = [](int worker, std::int32_t batch) {
    return prorata_expected_seconds(0, worker, static_cast<std::uint32_t>(GroupKind::train),
                                    static_cast<std::uint32_t>(batch));
  };
  EXPECT_EQ(expected(0, 64), 0);
  replica.price_training({}, kBatches);
  for (std::size_t b = 0; b < kBatches.size(); ++b)
    for (int w = 0; w < 2; ++w) {
      const double own = price(shapes, entries, b, w);
      EXPECT_GT(own, 0);
      EXPECT_NEAR(expected(w, kBatches[b]) / own, 1, 1e-9);
    }
  EXPECT_NEAR(expected(1, 64) / expected(0, 64), 3, 1e-5);
  replica.price_training({}, std::vector{48});  // not known to the models: as on the line between its neighbours
  EXPECT_NEAR(expected(0, 48), (expected(0, 32) + expected(0, 64)) / 2, 1e-9);
}

TEST_F(Speed, SharesFollowFromTheModels) {
  const NetworkSpec spec = small_mlp();
  write_models(spec);
  start(2);
  Network network(spec, 1);
  const TrainingShapes shapes(network, kBatches, Overlap::possible);
  const SpeedTable table = speed_table(shapes, read_entries(shapes), nullptr, 64);
  ASSERT_EQ(table.workers.size(), 2u);
  EXPECT_EQ(table.workers[0].points.size(), kBatches.size());
  EXPECT_NEAR(*table.workers[0].share, 0.75, 0.001);
  EXPECT_NEAR(*table.workers[1].share, 0.25, 0.001);
}

TEST_F(Speed, ModelsAsTheyShouldBeAreBelieved) {
  const NetworkSpec spec = every_layer();
  write_models(spec);
  start(2);
  Network network(spec, 1);
  const TrainingShapes shapes(network, kBatches, Overlap::possible);
  EXPECT_TRUE(find_implausible(shapes, read_entries(shapes), nullptr).empty());
}

// How wrong, at which batch size, and what gives it away.
struct Poison {
  double factor;
  std::size_t batch;
};
void PrintTo(const Poison& p, std::ostream* out) { *out << p.factor << " at " << kBatches[p.batch]; }
class Poisoned : public Speed, public ::testing::WithParamInterface<Poison> {};

TEST_P(Poisoned, EntryIsFoundAloneAndLeftOut) {
  const NetworkSpec spec = small_mlp();
  write_models(spec);
  const auto [factor, batch] = GetParam();
  poison(spec, batch, "softmax_cross_entropy", 1, factor);
  start(2);
  {
    Network network(spec, 1);
    TrainingShapes shapes(network, kBatches, Overlap::possible);
    const Entries entries = read_entries(shapes);
    const auto found = find_implausible(shapes, entries, nullptr);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].key.codelet->name(), "softmax_cross_entropy");
    EXPECT_EQ(found[0].key.worker, 1);
    EXPECT_EQ(found[0].batch, batch);
    EXPECT_NE(sentence(shapes, found[0]).find("worker 1 at batch " + std::to_string(kBatches[batch])),
              std::string::npos);
    check_models(network, 64);
  }
  stop();
  // StarPU has written so: it no longer uses this one, and still uses the others.
  start(2);
  Network network(spec, 1);
  TrainingShapes shapes(network, kBatches, Overlap::possible);
  EXPECT_TRUE(std::isnan(price(shapes, read_entries(shapes), batch, 1)));
  shapes.with_task(batch, position_of(shapes, "softmax_cross_entropy"), [](starpu_task* t) {
    EXPECT_TRUE(std::isnan(starpu_task_expected_length(t, starpu_worker_get_perf_archtype(1, 0), 0)));
    EXPECT_FALSE(std::isnan(starpu_task_expected_length(t, starpu_worker_get_perf_archtype(0, 0), 0)));
  });
}

INSTANTIATE_TEST_SUITE_P(Entries, Poisoned,
                         ::testing::Values(Poison{0.0025, kDefault}, Poison{100, kDefault}, Poison{4, 1}, Poison{25, 0},
                                           Poison{0.01, 4}));

TEST_F(Speed, PoisonedEntryOfATaskThatKnowsNoBatchSizeIsSeenByTheOtherWorker) {
  const NetworkSpec spec = small_mlp();
  write_models(spec);
  poison(spec, kDefault, "apply_gradient", 0, 0.001);
  start(2);
  Network network(spec, 1);
  const TrainingShapes shapes(network, kBatches, Overlap::possible);
  const auto found = find_implausible(shapes, read_entries(shapes), nullptr);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key.codelet->name(), "apply_gradient");
}

TEST_F(Speed, RecordSaysWhatAnEntryShouldBe) {
  const NetworkSpec spec = small_mlp();
  write_models(spec);
  start(2);
  Network network(spec, 1);
  const TrainingShapes shapes(network, kBatches, Overlap::possible);
  const Entries entries = read_entries(shapes);
  CalibrationRecord record;
  for (const auto& [key, entry] : entries) record.entries[name_of(key)] = {entry.seconds, 0.01, 20};
  EXPECT_TRUE(find_implausible(shapes, entries, &record).empty());
  for (auto& [name, m] : record.entries)
    if (name.codelet == "softmax_cross_entropy" && name.model == "cpu1") m.seconds *= 3;
  EXPECT_EQ(find_implausible(shapes, entries, &record).size(), kBatches.size());
}

TEST_F(Speed, RecordIsReadAsItWasWritten) {
  start(1);
  CalibrationRecord record{"net/1", "made-up", "2020-01-02T03:04:05Z", circumstances_now(), false, {1, 64}, {}};
  record.entries[{"dense_forward", "cpu1", "onednn", 0xdeadbeef}] = {1.25e-4, 0.02, 31};
  write_record(record);
  EXPECT_EQ(record_path("net/1").filename(), "prorata-net_1.made-up.json");
  const auto read = read_record("net/1");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->network, record.network);
  EXPECT_EQ(read->host, record.host);
  EXPECT_EQ(read->written, record.written);
  EXPECT_EQ(read->homogeneous_cpu, false);
  EXPECT_EQ(read->batches, record.batches);
  EXPECT_EQ(differences(read->circumstances, circumstances_now()), "");
  ASSERT_EQ(read->entries.size(), 1u);
  EXPECT_EQ(read->entries.begin()->first, record.entries.begin()->first);
  EXPECT_EQ(read->entries.begin()->second.seconds, 1.25e-4);
  EXPECT_EQ(read->entries.begin()->second.measurements, 31u);
  EXPECT_FALSE(read_record("other"));
  std::ofstream(record_path("net/1")) << "{\"format\": 7}";
  EXPECT_THROW(read_record("net/1"), InputError);
}

TEST_F(Speed, DifferencesAreNamed) {
  start(1);
  const Circumstances now = circumstances_now();
  Circumstances then = now;
  then.cpu = "Z80";
  then.starpu_version = "0.1";
  then.implementations["dense_forward"] = {"abacus"};
  const std::string text = differences(then, now);
  for (const char* word : {"processor", "Z80", "StarPU", "0.1", "dense_forward"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " not in: " << text;
  EXPECT_EQ(text.find("OpenBLAS"), std::string::npos);
}

}  // namespace
}  // namespace prorata::test
