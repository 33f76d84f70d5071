#include "driver/data/dataset.h"

#include "models/errors.h"
#include "tests/driver/data/files.h"
#include "tests/tiny_networks.h"

#include <algorithm>

namespace prorata {
namespace {

using test::idx;
using test::WithFolder;

NetworkSpec network(ImageShape input, std::int32_t classes) {
  NetworkSpec spec = test::small_mlp();
  spec.input = input;
  spec.classes = classes;
  return spec;
}

std::vector<std::uint8_t> bytes(const Samples& samples) {
  const auto values = samples.images.as<std::uint8_t>();
  return {values.begin(), values.end()};
}

class WithMnist : public WithFolder {
 protected:
  WithMnist() {
    for (const char* split : {"train", "t10k"}) {
      write(std::string(split) + "-images-idx3-ubyte", idx(8, {2, 1, 2}, "abcd"));
      write(std::string(split) + "-labels-idx1-ubyte", idx(8, {2}, std::string("\x09\0", 2)));
    }
  }
  Dataset load() const { return load_dataset("mnist", folder(), network({1, 2, 1}, 10), 1); }
};

TEST_F(WithMnist, ReadsBothSplits) {
  const Dataset data = load();
  EXPECT_EQ(data.train.size(), 2u);
  EXPECT_EQ(data.test.labels, (std::vector<std::int32_t>{9, 0}));
  EXPECT_EQ(bytes(data.train)[2], 'c');
  EXPECT_EQ(data.shape, (ImageShape{1, 2, 1}));
}

TEST_F(WithMnist, RefusesFilesThatDoNotBelongTogether) {
  write("t10k-labels-idx1-ubyte", idx(8, {3}, std::string(3, '\0')));
  expect_error<InputError>([&] { load(); }, {"t10k-labels", "3 labels", "2 images"});
  write("t10k-labels-idx1-ubyte", idx(8, {2}, std::string(2, '\0')));
  write("t10k-images-idx3-ubyte", idx(8, {2, 2, 1}, "abcd"));
  expect_error<InputError>([&] { load(); }, {"differ in size"});
}

TEST_F(WithMnist, NamesThePlaceOfALabelOutOfRange) {
  write("train-labels-idx1-ubyte", idx(8, {2}, std::string("\x01\x0a", 2)));
  expect_error<InputError>([&] { load(); }, {"train-labels", "byte 9", "10"});
}

TEST_F(WithMnist, RefusesANetworkThatItDoesNotFit) {
  expect_error<InputError>(
      [&] {
        load_dataset("mnist", folder(), network({2, 1, 1}, 10), 1);
      },
      {"[2, 1, 1]", "[1, 2, 1]"});
  expect_error<InputError>([&] { load_dataset("mnist", folder(), network({1, 2, 1}, 3), 1); }, {"classes"});
}

// The file is a hole, which takes no room.
TEST_F(WithMnist, RefusesImagesOfMorePixelsThanTheyMayHave) {
  constexpr std::uint32_t kWidth = 0x80000000;
  const auto file = write("train-images-idx3-ubyte", idx(8, {1, 1, kWidth}, ""));
  std::filesystem::resize_file(file, 16 + std::uint64_t{kWidth});
  write("train-labels-idx1-ubyte", idx(8, {1}, std::string(1, '\0')));
  expect_error<InputError>([&] { load(); }, {"train-images", "byte 12", "2147483648"});
}

TEST_F(WithMnist, SaysWhichFileIsMissing) {
  std::filesystem::remove(folder() / "t10k-images-idx3-ubyte");
  expect_error<InputError>([&] { load(); }, {"t10k-images-idx3-ubyte", "--data"});
}

TEST(Dataset, RefusesToDivideWhatIsDividedAlready) {
  for (const Preparation& p : {Preparation{.train_per_class = 5}, Preparation{.split_seed = 2}})
    EXPECT_THROW(load_dataset("synthetic", {}, network({3, 3, 2}, 5), 1, p), InputError);
}

TEST(Dataset, SyntheticFollowsFromItsSeed) {
  const auto make = [](std::uint64_t seed) { return load_dataset("synthetic", {}, network({3, 3, 2}, 5), seed); };
  const Dataset a = make(1), b = make(1), c = make(2);
  EXPECT_EQ(bytes(a.train), bytes(b.train));
  EXPECT_EQ(a.test.labels, b.test.labels);
  EXPECT_NE(bytes(a.train), bytes(c.train));
  EXPECT_EQ(a.train.images.size(), a.train.size() * 18);
  EXPECT_LT(*std::max_element(a.train.labels.begin(), a.train.labels.end()), 5);
}

TEST(Dataset, FashionMnistIsWhereDebianPutsIt) {
  const Dataset data = load_dataset("fashion-mnist", {}, network({28, 28, 1}, 10), 1);
  EXPECT_EQ(data.train.size(), 60000u);
  EXPECT_EQ(data.test.size(), 10000u);
}

}  // namespace
}  // namespace prorata
