#include "driver/data/cifar10.h"

#include "driver/data/labels.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace prorata {
namespace fs = std::filesystem;
namespace {

constexpr ImageShape kShape{32, 32, 3};
constexpr std::int32_t kClasses = 10;
constexpr std::size_t kPixels = 32 * 32, kChannels = 3, kRecord = 1 + kPixels * kChannels;

struct Split {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
};

void append(Split& split, const fs::path& file) {
  if (!fs::is_regular_file(file))
    throw InputError(file.string() + ": no such file; give the folder of CIFAR-10's binary version with --data");
  const std::uint64_t size = fs::file_size(file);
  if (size == 0 || size % kRecord != 0)
    throw InputError(file.string() + ": at byte " + std::to_string(size - size % kRecord) +
                     ": the file ends within a record, of " + std::to_string(kRecord) +
                     " bytes each; it is truncated, or not of CIFAR-10's binary version");
  std::ifstream in(file, std::ios::binary);
  std::vector<std::uint8_t> record(kRecord);
  for (std::uint64_t at = 0; at < size; at += kRecord) {
    if (!in.read(reinterpret_cast<char*>(record.data()), kRecord))
      throw InputError(file.string() + ": at byte " + std::to_string(at) + ": cannot be read: " + std::strerror(errno));
    split.labels.push_back(
        checked_label(record[0], kClasses, [&] { return file.string() + ": at byte " + std::to_string(at); }));
    for (std::size_t p = 0; p < kPixels; ++p)
      for (std::size_t c = 0; c < kChannels; ++c) split.images.push_back(record[1 + c * kPixels + p]);
  }
}

}  // namespace

Dataset read_cifar10(const fs::path& directory) {
  Split train, test;
  for (int i = 1; i <= 5; ++i) append(train, directory / ("data_batch_" + std::to_string(i) + ".bin"));
  append(test, directory / "test_batch.bin");
  return {"cifar10",
          kShape,
          kClasses,
          {std::move(train.images), std::move(train.labels)},
          {std::move(test.images), std::move(test.labels)}};
}

}  // namespace prorata
