// What a network is given: the same bits of a sample whoever prepares it, in whatever company.
#include "codelets/backend/cpu_worker.h"
#include "codelets/codelet.h"
#include "driver/evaluation.h"
#include "driver/trainer.h"
#include "models/replica.h"
#include "tests/models/samples.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace prorata {
namespace {

using test::copy_of;
using test::random_samples;

constexpr Preprocessing kAll{.normalize = true, .random_crop = 2, .horizontal_flip = true, .cutout = 3};
constexpr std::size_t kSamples = 24;

class PreprocessingTest : public test::WithStarpu {
 protected:
  PreprocessingTest() {
    samples_ = random_samples(spec_, kSamples, 4);
    samples_.normalization = {0.3f, 0.7f, 3.1f, 0.9f};
  }
  ~PreprocessingTest() override { ::setenv("STARPU_NOPENCL", "0", 1); }

  // Beside the CPU workers, the processor as an OpenCL device where there is such a driver.
  void start_with_device(int cpus) {
    ::setenv("STARPU_NOPENCL", "1", 1);
    ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    start(cpus);
  }

  // What the network is given of these samples in training, computed by this worker: a row for each.
  std::vector<std::vector<float>> given(int worker, const DataSource& source, const std::vector<std::uint32_t>& indices,
                                        const Preprocessing& preprocessing) {
    Network network(spec_, 1);
    Replica replica(
        network, static_cast<std::int32_t>(kSamples), Overlap::possible, [](Replica&) {}, Update::later, {},
        preprocessing);
    const TaskList list = replica.training_tasks(source, indices);
    for (starpu_task* task : list.tasks()) {
      task->execute_on_a_specific_worker = 1;
      task->workerid = static_cast<unsigned>(worker);
      submit_task(task);
    }
    starpu_task_wait_for_all();
    rethrow_kernel_error();
    const auto features = static_cast<std::ptrdiff_t>(spec_.input.size());
    const std::vector<float> all = copy_of(replica.input(), indices.size() * static_cast<std::size_t>(features));
    std::vector<std::vector<float>> rows;
    for (auto at = all.begin(); at != all.end(); at += features) rows.emplace_back(at, at + features);
    return rows;
  }

  // On every worker, each sample alone and in several mini-batches.
  void expect_same_bits(const DataSource& source, const Preprocessing& preprocessing) {
    std::vector<std::vector<float>> expected;
    for (std::uint32_t i = 0; i < kSamples; ++i) expected.push_back(given(0, source, {i}, preprocessing)[0]);
    for (int worker = 0; worker < static_cast<int>(starpu_worker_get_count()); ++worker)
      for (const std::vector<std::uint32_t>& indices :
           {std::vector<std::uint32_t>{23, 0, 7}, {1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}}) {
        const auto rows = given(worker, source, indices, preprocessing);
        for (std::size_t i = 0; i < indices.size(); ++i)
          EXPECT_EQ(rows[i], expected[indices[i]]) << "sample " << indices[i] << " on worker " << worker;
      }
  }

  DataSource source(const SampleHandles& handles, std::uint64_t seed, std::uint32_t epoch) const {
    DataSource s = handles.source();
    s.seed = seed;
    s.epoch = epoch;
    return s;
  }

  NetworkSpec spec_ = test::every_layer();  // [9, 8, 2]
  Samples samples_;
};

TEST_F(PreprocessingTest, IsTheSameBitsOnEveryCpuWorkerInEveryMinibatch) {
  start(3);
  const SampleHandles handles(samples_);
  expect_same_bits(source(handles, 0x123456789abcdef0, 3), kAll);
}

TEST_F(PreprocessingTest, IsTheSameBitsOnADevice) {
  start_with_device(1);
  if (starpu_opencl_worker_get_count() == 0) GTEST_SKIP() << "there is no OpenCL device";
  ASSERT_EQ(starpu_worker_get_count(), 2u);
  const SampleHandles handles(samples_);
  for (const Preprocessing& p : {kAll, Preprocessing{.normalize = true}, Preprocessing{.random_crop = 4},
                                 Preprocessing{.horizontal_flip = true}, Preprocessing{.cutout = 5}, Preprocessing{}})
    expect_same_bits(source(handles, 7, 1), p);
}

TEST_F(PreprocessingTest, IsTheSameBitsOfFloatsAndOfPatchesOnADevice) {
  start_with_device(1);
  if (starpu_opencl_worker_get_count() == 0) GTEST_SKIP() << "there is no OpenCL device";
  Random random(6, 1);
  std::vector<float> scene(5 * 6 * 2);
  for (float& v : scene) v = static_cast<float>(random.uniform() - 0.5);
  Samples patches = samples_;
  patches.images = scene;
  patches.patches = {5, 6, {}};
  for (std::uint32_t i = 0; i < kSamples; ++i) patches.patches->places.push_back((i * 7 + 2) % 30);
  Samples floats = samples_;
  std::vector<float> values;
  for (const std::uint8_t v : samples_.images.as<std::uint8_t>()) values.push_back(static_cast<float>(v) / 7 - 9);
  floats.images = std::move(values);
  for (const Samples* s : {&patches, &floats}) {
    const SampleHandles handles(*s);
    expect_same_bits(source(handles, 7, 1), kAll);
    expect_same_bits(source(handles, 7, 1), {});
  }
}

TEST_F(PreprocessingTest, FollowsFromSeedAndEpochAndSample) {
  start(1);
  Samples equal = samples_;  // so that only what is drawn tells them apart
  const auto features = static_cast<std::size_t>(spec_.input.size());
  const auto first = samples_.images.as<std::uint8_t>().first(features);
  std::vector<std::uint8_t> images;
  for (std::size_t i = 0; i < kSamples; ++i) images.insert(images.end(), first.begin(), first.end());
  equal.images = std::move(images);
  const SampleHandles handles(equal);
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < kSamples; ++i) all.push_back(i);
  const auto rows = given(0, source(handles, 1, 1), all, kAll);
  EXPECT_EQ(rows, given(0, source(handles, 1, 1), all, kAll));
  // Of 25 places times 2 times 72 squares: 24 draws are hardly ever the same.
  EXPECT_GT(std::set(rows.begin(), rows.end()).size(), kSamples / 2);
  for (const DataSource& other :
       {source(handles, 2, 1), source(handles, 1 + (std::uint64_t{1} << 32), 1), source(handles, 1, 2)}) {
    const auto others = given(0, other, all, kAll);
    std::size_t same = 0;
    for (std::size_t i = 0; i < kSamples; ++i) same += rows[i] == others[i];
    EXPECT_LT(same, kSamples / 4);
  }
}

TEST_F(PreprocessingTest, IsNothingByDefault) {
  start(1);
  const SampleHandles handles(samples_);
  const auto rows = given(0, handles.source(), {5, 3}, {});
  const auto bytes = samples_.images.as<std::uint8_t>();
  for (std::size_t f = 0; f < rows[0].size(); ++f)
    EXPECT_EQ(rows[0][f], static_cast<float>(bytes[5 * rows[0].size() + f]) * (1.0f / 255));
}

TEST_F(PreprocessingTest, OfAnEvaluationIsNormalisationOnly) {
  start(1);
  Network network(spec_, 1);
  const auto features = static_cast<std::size_t>(spec_.input.size());
  const auto bytes = samples_.images.as<std::uint8_t>();
  for (const bool normalize : {true, false}) {
    Preprocessing p = kAll;
    p.normalize = normalize;
    Trainer trainer(network, {.batch = static_cast<std::int32_t>(kSamples), .replicas = 1, .preprocessing = p});
    evaluate(trainer, samples_, [] { return false; });
    const std::vector<float> x = copy_of(trainer.replica(0).input(), kSamples * features);
    const std::vector<float>& n = samples_.normalization;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float raw = static_cast<float>(bytes[i]) * (1.0f / 255);
      ASSERT_EQ(x[i], normalize ? (raw - n[i % 2]) * n[2 + i % 2] : raw) << "number " << i;
    }
  }
}

TEST_F(PreprocessingTest, NeedsANormalization) {
  start(1);
  samples_.normalization.clear();
  const SampleHandles handles(samples_);
  EXPECT_THROW(given(0, handles.source(), {0}, kAll), std::logic_error);
}

}  // namespace
}  // namespace prorata
