#include "driver/data/hyperspectral.h"

#include "models/errors.h"
#include "tests/driver/data/files.h"
#include "tests/driver/data/mat_file.h"
#include "tests/tiny_networks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace prorata {
namespace {

// A scene of 4 rows, 5 columns and 2 bands. MATLAB's order: rows fastest.
class WithScene : public test::WithFolder {
 protected:
  static constexpr std::size_t kRows = 4, kColumns = 5, kBands = 2, kPixels = kRows * kColumns;

  WithScene() {
    network_.input = {3, 3, kBands};
    network_.classes = 2;
    for (std::size_t i = 0; i < kPixels * kBands; ++i) cube_.push_back(static_cast<double>(i * i % 17) * 100);
    truth_.assign(kPixels, 0);
    for (std::size_t i = 0; i < 10; ++i) truth_[i] = 1;
    for (std::size_t i = 12; i < 18; ++i) truth_[i] = 2;
    write_scene();
  }

  template <class T>
  void write_mat(const char* file, const char* name, std::vector<std::size_t> dimensions, std::vector<T> values,
                 mat_ft version = MAT_FT_MAT5, matio_compression compression = MAT_COMPRESSION_ZLIB) const {
    test::write_mat(folder() / file, name, std::move(dimensions), std::move(values), version, compression);
  }
  void write_scene(mat_ft version = MAT_FT_MAT5) const {
    write_mat("scene.mat", "scene", {kRows, kColumns, kBands}, cube_, version);
    write_mat("scene_gt.mat", "scene_gt", {kRows, kColumns}, truth_, version);
  }
  Dataset read(const Preparation& p = {}) const { return read_hyperspectral(folder(), network_, p); }
  void expect_refused(const std::vector<std::string>& words) const {
    expect_error<InputError>([&] { read(); }, words);
  }

  NetworkSpec network_ = test::small_mlp();
  std::vector<double> cube_;
  std::vector<std::uint8_t> truth_;
};

TEST_F(WithScene, HasBandsSideBySideAndNormalised) {
  const Dataset data = read();
  EXPECT_EQ(data.shape, (ImageShape{3, 3, 2}));
  const auto scene = data.train.images.as<float>();
  ASSERT_EQ(scene.size(), kPixels * kBands);
  EXPECT_EQ(data.test.images.data(), scene.data()) << "both splits are of one scene";
  for (std::size_t b = 0; b < kBands; ++b) {
    const double* const band = cube_.data() + b * kPixels;
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < kPixels; ++i) mean += band[i] / kPixels;
    for (std::size_t i = 0; i < kPixels; ++i) squares += (band[i] - mean) * (band[i] - mean) / kPixels;
    for (std::size_t row = 0; row < kRows; ++row)
      for (std::size_t column = 0; column < kColumns; ++column)
        // One rounding to float, of numbers below 4.
        EXPECT_NEAR(scene[(row * kColumns + column) * kBands + b],
                    (band[column * kRows + row] - mean) / std::sqrt(squares), 4e-7);
  }
}

TEST_F(WithScene, IsTheSameInWholeNumbersAndInEveryVersion) {
  const auto floats = [](const Dataset& data) {
    const auto values = data.train.images.as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> expected = floats(read());
  write_mat("scene.mat", "scene", {kRows, kColumns, kBands}, std::vector<std::int16_t>(cube_.begin(), cube_.end()));
  EXPECT_EQ(floats(read()), expected);
  write_scene(MAT_FT_MAT73);
  EXPECT_EQ(floats(read()), expected);
}

TEST_F(WithScene, IsSplitByClassIntoLabelledPixels) {
  const Dataset data = read({.train_per_class = 2});
  EXPECT_EQ(data.train.labels, (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(data.test.size(), 8u + 4);
  std::set<std::uint32_t> seen;
  for (const Samples* s : {&data.train, &data.test})
    for (std::size_t i = 0; i < s->size(); ++i) {
      const std::uint32_t pixel = s->patches->places[i];
      EXPECT_EQ(truth_[pixel % kColumns * kRows + pixel / kColumns], s->labels[i] + 1);
      EXPECT_TRUE(seen.insert(pixel).second) << "in both splits, or twice";
    }
  EXPECT_EQ(seen.size(), 16u);
}

TEST_F(WithScene, HasTrainingPixelsByFractionAndLeavesHalfForTheTest) {
  EXPECT_EQ(read({.train_per_class = 0.5}).train.size(), 5u + 3);
  EXPECT_EQ(read({.train_per_class = 0.01}).train.size(), 1u + 1);
  EXPECT_EQ(read({.train_per_class = 0.999}).train.size(), 9u + 5);
  EXPECT_EQ(read({.train_per_class = 4}).train.size(), 4u + 3);
  EXPECT_EQ(read({.train_per_class = 1e9}).train.size(), 5u + 3);
}

TEST_F(WithScene, IsSplitByItsOwnSeed) {
  const auto places = [&](std::uint64_t seed) {
    return read({.train_per_class = 3, .split_seed = seed}).train.patches->places;
  };
  EXPECT_EQ(places(1), places(1));
  EXPECT_NE(places(1), places(2));
}

TEST_F(WithScene, NamesThePlaceOfAClassThatTheNetworkDoesNotHave) {
  truth_[2 * kRows + 3] = 3;
  write_scene();
  expect_refused({"scene_gt", "row 3, column 2", "class is 3", "1 to the network's 2"});
  truth_[2 * kRows + 3] = 0;
  std::vector<double> fractions(truth_.begin(), truth_.end());
  fractions[1] = 1.5;
  write_mat("scene_gt.mat", "scene_gt", {kRows, kColumns}, fractions);
  expect_refused({"row 1, column 0", "1.5"});
  fractions[1] = -1;
  write_mat("scene_gt.mat", "scene_gt", {kRows, kColumns}, fractions);
  expect_refused({"row 1, column 0", "-1"});
  fractions[1] = std::numeric_limits<double>::quiet_NaN();
  write_mat("scene_gt.mat", "scene_gt", {kRows, kColumns}, fractions);
  expect_refused({"row 1, column 0", "nan"});
}

TEST_F(WithScene, NamesThePlaceOfWhatIsNoNumber) {
  cube_[kPixels + 1 * kRows + 2] = std::numeric_limits<double>::quiet_NaN();
  write_scene();
  expect_refused({"scene.mat", "row 2, column 1, band 1", "nan"});
  cube_[kPixels + 1 * kRows + 2] = -1e300;  // the sum of such squares is infinite
  write_scene();
  expect_refused({"scene.mat", "row 2, column 1, band 1", "range"});
}

TEST_F(WithScene, RefusesANetworkThatItDoesNotFit) {
  network_.classes = 3;
  expect_refused({"class 3", "0 pixel"});
  network_.classes = 2;
  network_.input = {10, 3, kBands};
  expect_refused({"[10, 3, 2]", "half"});
  network_.input = {3, 3, 7};
  expect_refused({"scene.mat", "2 bands", "[3, 3, 7]"});
  network_.input = {3, 3, kBands};
  expect_error<InputError>([&] { load_dataset("hyperspectral", folder(), network_, 1, {.normalize = true}); },
                           {"--normalize"});
}

TEST_F(WithScene, RefusesANetworkThatDoesNotSayItsWindow) {
  network_.any_input = true;
  expect_refused({network_.name, "input", "bands"});
}

TEST_F(WithScene, SaysWhichArraysAreThereWhereItIsNotClear) {
  write_mat("second.mat", "other", {kRows, kColumns, kBands}, cube_);
  expect_refused({"cube", "scene [4, 5, 2]", "other [4, 5, 2]", "second.mat", "leave one"});
  std::filesystem::remove(folder() / "second.mat");
  std::filesystem::remove(folder() / "scene_gt.mat");
  expect_refused({"ground truth [4, 5]", "none"});
  std::filesystem::remove(folder() / "scene.mat");
  expect_refused({"cube", "none"});
}

// A cut file is refused, or what is left of it still is the scene (its end may be padding).
TEST_F(WithScene, IsRefusedWhereItIsCut) {
  for (const mat_ft version : {MAT_FT_MAT5, MAT_FT_MAT73}) {
    write_scene(version);
    std::ifstream in(folder() / "scene.mat", std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(in)), {});
    const std::size_t step = version == MAT_FT_MAT5 ? 1 : 97;
    for (std::size_t length = 0; length + 8 < whole.size(); length += step) {
      SCOPED_TRACE(length);
      write("scene.mat", whole.substr(0, length));
      expect_refused({"scene.mat"});
    }
  }
}

// A header that claims more than is there.
TEST_F(WithScene, IsRefusedWhereItsHeaderClaimsMoreThanThereIs) {
  write_mat("scene.mat", "scene", {kRows, kColumns, kBands}, cube_, MAT_FT_MAT5, MAT_COMPRESSION_NONE);
  std::ifstream in(folder() / "scene.mat", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  constexpr std::size_t kDimensions = 128 + 8 + 16 + 8;  // file header, tags of array and dimensions, flags
  ASSERT_EQ(whole[kDimensions], static_cast<char>(kRows));
  for (const std::uint32_t bands : {1000000u, 0x7fffffffu, 0xffffffffu, 0u}) {
    SCOPED_TRACE(bands);
    network_.input.channels = static_cast<std::int32_t>(bands);
    std::string bytes = whole;
    bytes.replace(kDimensions + 8, 4, reinterpret_cast<const char*>(&bands), 4);
    write("scene.mat", bytes);
    expect_refused({"scene.mat"});
  }
}

// Nothing is asked of a damaged file but that it is read or refused.
TEST_F(WithScene, MayBeDamagedAnywhere) {
  std::ifstream in(folder() / "scene.mat", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      write("scene.mat", bytes);
      try {
        read();
      } catch (const InputError&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, whole.size());
}

}  // namespace
}  // namespace prorata
