#include "driver/data/cifar10.h"

#include "models/errors.h"
#include "tests/driver/data/files.h"

namespace prorata {
namespace {

// A record whose red, green and blue begin with these bytes.
std::string record(char label, const std::string& red, const std::string& green, const std::string& blue) {
  std::string bytes(1, label);
  for (const std::string& plane : {red, green, blue}) bytes += plane + std::string(1024 - plane.size(), '\0');
  return bytes;
}

class WithCifar10 : public test::WithFolder {
 protected:
  WithCifar10() {
    for (int i = 1; i <= 5; ++i)
      write("data_batch_" + std::to_string(i) + ".bin", record(static_cast<char>(i), "ab", "cd", "ef"));
    write("test_batch.bin", record(0, "g", "h", "i") + record(9, "j", "k", "l"));
  }
  Dataset read() const { return read_cifar10(folder()); }
};

TEST_F(WithCifar10, HasTheChannelsOfAPixelSideBySide) {
  const Dataset data = read();
  EXPECT_EQ(data.shape, (ImageShape{32, 32, 3}));
  EXPECT_EQ(data.classes, 10);
  EXPECT_EQ(data.train.labels, (std::vector<std::int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(data.test.labels, (std::vector<std::int32_t>{0, 9}));
  const auto train = data.train.images.as<std::uint8_t>(), test = data.test.images.as<std::uint8_t>();
  ASSERT_EQ(train.size(), 5u * 3072);
  EXPECT_EQ(std::string(train.begin() + 3072, train.begin() + 3078), "acebdf");
  EXPECT_EQ(std::string(test.begin() + 3072, test.begin() + 3075), "jkl");
}

TEST_F(WithCifar10, NamesFileAndPlaceOfWhatIsWrong) {
  write("data_batch_3.bin", record(1, "", "", "") + record(10, "", "", ""));
  expect_error<InputError>([&] { read(); }, {"data_batch_3.bin", "byte 3073", "label is 10", "0 to 9"});
  write("data_batch_3.bin", record(1, "", "", "") + "rest");
  expect_error<InputError>([&] { read(); }, {"data_batch_3.bin", "byte 3073", "3073 bytes"});
  write("data_batch_3.bin", "");
  expect_error<InputError>([&] { read(); }, {"data_batch_3.bin", "byte 0"});
  std::filesystem::remove(folder() / "data_batch_3.bin");
  expect_error<InputError>([&] { read(); }, {"data_batch_3.bin", "--data"});
}

}  // namespace
}  // namespace prorata
