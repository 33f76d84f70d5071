#include "driver/data/elements.h"

#include "driver/evaluation.h"
#include "models/errors.h"
#include "tests/driver/data/files.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <unistd.h>

#include <fstream>

namespace prorata {
namespace {

using test::WithFolder;

TEST_F(WithFolder, MapsNumbersFromAnyPlaceOnAndKeepsThemWhileACopyLives) {
  std::string bytes(10000, 'a');
  bytes.replace(9000, 4, "wxyz");
  const auto file = write("numbers", bytes);
  Elements copy;
  {
    const Elements mapped = Elements::mapped(file, 9000, ElementType::uint8, 1000);
    copy = mapped;
  }
  std::filesystem::remove(file);
  EXPECT_EQ(copy.size(), 1000u);
  EXPECT_EQ(copy.as<std::uint8_t>()[3], 'z');
  copy.forget();
  EXPECT_EQ(copy.as<std::uint8_t>()[0], 'w');
  EXPECT_THROW(copy.as<float>(), std::logic_error);
}

TEST_F(WithFolder, RefusesToMapWhatIsNotThere) {
  expect_error<InputError>([&] { Elements::mapped(folder() / "none", 0, ElementType::uint8, 1); }, {"none", "opened"});
}

// Of this process, in bytes: what it has in memory, files' pages included.
std::size_t resident() {
  std::ifstream in("/proc/self/statm");
  std::size_t pages = 0;
  in >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// A file with a hole takes no room on the disk.
void enlarge(const std::filesystem::path& file, std::uint64_t data) {
  std::filesystem::resize_file(file, std::filesystem::file_size(file) + data);
}

constexpr std::size_t kFile = std::size_t{1} << 30;  // bytes
constexpr std::size_t kMost = kFile / 8;             // what may be taken for other reasons, StarPU's start among them
constexpr std::size_t kNetwork = std::size_t{10}
                                 << 24;  // parameters, velocity, gradient, samples: 42 MB each but the last

class LargeFile : public test::WithStarpu {};

// A mini-batch of few samples needs their pages only.
TEST_F(LargeFile, IsNotLoadedByReadingItsSetNorByUsingSomeOfIt) {
  const test::TemporaryFolder folder;
  constexpr std::uint32_t kSamples = 1024, kSide = 1024;
  for (const std::string split : {"train", "t10k"}) {
    enlarge(folder.write(split + "-images-idx3-ubyte", test::idx(8, {kSamples, kSide, kSide}, "")), kFile);
    folder.write(split + "-labels-idx1-ubyte", test::idx(8, {kSamples}, std::string(kSamples, '\0')));
  }
  NetworkSpec spec = test::small_mlp();
  spec.input = {kSide, kSide, 1};
  spec.classes = 10;
  spec.layers = {test::layer("fc", DenseSpec{10}, spec.input, {1, 1, 10})};
  const std::size_t before = resident();
  const Dataset data = load_dataset("mnist", folder.path(), spec, 1);
  EXPECT_LT(resident(), before + kMost);
  ASSERT_EQ(data.train.images.bytes(), kFile);

  start(1);
  Network network(spec, 1);
  Trainer trainer(network, {.batch = 2, .replicas = 1});
  const SampleHandles handles(data.train);
  const std::vector<std::uint32_t> order{0, 500, 1023};
  std::uint32_t trained = 0;
  trainer.run(
      {.kind = GroupKind::train,
       .data = handles.source(),
       .order = order,
       .step = [](std::size_t) { return UpdateStep{.learning_rate = 0.1f, .momentum = 0, .weight_decay = 0}; },
       .balance = PRORATA_PRORATA,
       .round = 0,
       .record =
           [&](const MinibatchResult& m) {
             trained += m.samples;
             return true;
           }},
      [] { return false; }, [] {});
  EXPECT_EQ(trained, 3u);
  EXPECT_LT(resident(), before + kNetwork + kMost);
}

// All of it is looked at: for numbers that are not finite, and for mean and deviation.
TEST(LargeNpyFile, IsGoneThroughInParts) {
  const test::TemporaryFolder folder;
  constexpr std::size_t kNumbers = kFile / 4 / sizeof(float);
  const std::string shape = "(1024, " + std::to_string(kNumbers / 1024) + ")";
  for (const std::string split : {"train", "test"}) {
    enlarge(folder.write(split + "_images.npy", test::npy("<f4", shape, "")), kNumbers * sizeof(float));
    folder.write(split + "_labels.npy", test::npy("|u1", "(1024,)", std::string(1024, '\0')));
  }
  NetworkSpec spec = test::small_mlp();
  spec.input = {1, 1, kNumbers / 1024};
  const std::size_t before = resident();
  const Dataset data = load_dataset("npy", folder.path(), spec, 1, {.normalize = true});
  EXPECT_LT(resident(), before + data.train.images.bytes() / 2);
}

}  // namespace
}  // namespace prorata
