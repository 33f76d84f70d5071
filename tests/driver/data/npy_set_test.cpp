#include "driver/data/npy_set.h"

#include "models/errors.h"
#include "tests/driver/data/files.h"
#include "tests/tiny_networks.h"

#include <limits>

namespace prorata {
namespace {

using test::bytes_of;
using test::npy;

// Two images of 2 x 2 in each split, classes 0 to 2.
class WithNpySet : public test::WithFolder {
 protected:
  WithNpySet() {
    network_.input = {2, 2, 1};
    images("|u1", "(2, 2, 2)", "abcdefgh");
    labels("|u1", "(2,)", std::string("\x02\0", 2));
  }
  void images(const char* type, const char* shape, const std::string& numbers) const {
    for (const std::string split : {"train", "test"}) write(split + "_images.npy", npy(type, shape, numbers));
  }
  void labels(const char* type, const char* shape, const std::string& numbers) const {
    for (const std::string split : {"train", "test"}) write(split + "_labels.npy", npy(type, shape, numbers));
  }
  Dataset read() const { return read_npy_set(folder(), network_); }
  void expect_refused(const std::vector<std::string>& words) const {
    expect_error<InputError>([&] { read(); }, words);
  }

  NetworkSpec network_ = test::small_mlp();
};

TEST_F(WithNpySet, IsMappedBytes) {
  const Dataset data = read();
  EXPECT_EQ(data.shape, (ImageShape{2, 2, 1}));
  EXPECT_EQ(data.test.images.as<std::uint8_t>()[7], 'h');
  EXPECT_EQ(data.train.labels, (std::vector<std::int32_t>{2, 0}));
}

TEST_F(WithNpySet, IsMappedFloats) {
  images("<f4", "(2, 2, 2, 1)", bytes_of<float>({1, 2, 3, 4, 5, 6, 7, -8.5f}));
  EXPECT_EQ(read().train.images.as<float>()[7], -8.5f);
}

TEST_F(WithNpySet, HasAsManyClassesAsItsLabelsWhereTheNetworkLeavesThatOpen) {
  network_.any_classes = true;
  EXPECT_EQ(read().classes, 3);
  labels("<i4", "(2,)", bytes_of<std::int32_t>({0, 1 << 20}));
  expect_refused({"train_labels", "1048576"});
  network_.any_classes = false;
  network_.classes = 4;
  labels("|u1", "(2,)", std::string("\x01\0", 2));
  EXPECT_EQ(read().classes, 4);
}

TEST_F(WithNpySet, HasLabelsOfEveryType) {
  labels("<i4", "(2,)", bytes_of<std::int32_t>({1, 2}));
  EXPECT_EQ(read().train.labels, (std::vector<std::int32_t>{1, 2}));
  labels("<i8", "(2,)", bytes_of<std::int64_t>({2, 1}));
  EXPECT_EQ(read().test.labels, (std::vector<std::int32_t>{2, 1}));
}

TEST_F(WithNpySet, TakesTheShapeOfTheNetworkWhereItIsFlat) {
  images("|u1", "(2, 4)", "abcdefgh");
  EXPECT_EQ(read().shape, (ImageShape{2, 2, 1}));
  images("|u1", "(2, 3)", "abcdef");
  EXPECT_EQ(read().shape, (ImageShape{1, 1, 3}));
}

TEST_F(WithNpySet, NamesThePlaceOfALabelOutOfRange) {
  labels("|u1", "(2,)", "\x02\x03");
  expect_refused({"train_labels.npy", "byte 129", "label is 3", "0 to 2"});
  labels("<i8", "(2,)", bytes_of<std::int64_t>({0, std::int64_t{1} << 32}));
  expect_refused({"train_labels.npy", "byte 136", "4294967296"});
  labels("<i4", "(2,)", bytes_of<std::int32_t>({-1, 0}));
  expect_refused({"train_labels.npy", "byte 128", "-1"});
}

TEST_F(WithNpySet, NamesThePlaceOfWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  images("<f4", "(2, 4)", bytes_of<float>({1, 2, 3, 4, 5, nan, 7, 8}));
  expect_refused({"train_images.npy", "byte 148", "number 5", "nan"});
  images("<f4", "(2, 4)", bytes_of<float>({-infinite, 2, 3, 4, 5, 6, 7, 8}));
  expect_refused({"train_images.npy", "byte 128", "inf"});
}

TEST_F(WithNpySet, RefusesWhatItDoesNotKnowOrWhatDoesNotFit) {
  images("<f8", "(2, 2, 2)", std::string(64, '\0'));
  expect_refused({"train_images.npy", "<f8", "float32"});
  images("|u1", "(8,)", "abcdefgh");
  expect_refused({"train_images.npy", "[8]", "features"});
  images("|u1", "(1, 2, 2, 2, 1)", "abcdefgh");
  expect_refused({"train_images.npy", "[1, 2, 2, 2, 1]"});
  images("|u1", "(2, 2, 2)", "abcdefgh");
  labels("|u1", "(2, 1)", "\x01\x01");
  expect_refused({"train_labels.npy", "[2, 1]", "[n]"});
  labels("<f4", "(2,)", bytes_of<float>({1, 2}));
  expect_refused({"train_labels.npy", "<f4", "int64"});
  labels("|u1", "(3,)", "\x01\x01\x01");
  expect_refused({"train_labels.npy", "3 labels", "2 images"});
  labels("|u1", "(2,)", "\x01\x01");
  write("test_images.npy", npy("|u1", "(2, 2, 3)", "abcdefghijkl"));
  expect_refused({"differ in size"});
  write("test_images.npy", npy("<f4", "(2, 2, 2)", std::string(32, '\0')));
  expect_refused({"differ in type"});
  std::filesystem::remove(folder() / "test_images.npy");
  expect_refused({"test_images.npy", "no such file"});
}

TEST_F(WithNpySet, RefusesFloatsThatBeginBetweenTwoPlaces) {
  std::string bytes = std::string("\x93NUMPY\x01\x00", 8);
  const std::string header = "{'descr':'<f4','fortran_order':False,'shape':(2,4)}";
  bytes += static_cast<char>(header.size());
  bytes += '\0' + header + std::string(32, '\0');
  ASSERT_NE((bytes.size() - 32) % 4, 0u);
  write("train_images.npy", bytes);
  expect_refused({"train_images.npy", "multiple"});
}

}  // namespace
}  // namespace prorata
