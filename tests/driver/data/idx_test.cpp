#include "driver/data/idx.h"

#include "models/errors.h"
#include "tests/driver/data/files.h"

namespace prorata {
namespace {

using test::idx;
using test::WithFolder;

const std::string kGood = idx(8, {2, 3}, "abcdef");

TEST_F(WithFolder, ReadsIdxPlainAndCompressed) {
  for (const auto& file : {write("plain", kGood), compress("packed.gz", kGood)}) {
    const IdxArray array = read_idx(file, 2);
    EXPECT_EQ(array.dimensions, (std::vector<std::uint32_t>{2, 3}));
    const auto values = array.values.as<std::uint8_t>();
    EXPECT_EQ(std::string(values.begin(), values.end()), "abcdef");
  }
}

TEST_F(WithFolder, RefusesEveryTruncation) {
  for (std::size_t length = 0; length < kGood.size(); ++length) {
    SCOPED_TRACE(length);
    const auto file = write("cut", kGood.substr(0, length));
    expect_error<InputError>([&] { read_idx(file, 2); }, {"cut"});
  }
  std::ifstream in(compress("packed.gz", kGood), std::ios::binary);
  const std::string packed((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t length = 3; length < packed.size(); ++length) {
    SCOPED_TRACE(length);
    const auto file = write("cut.gz", packed.substr(0, length));
    expect_error<InputError>([&] { read_idx(file, 2); }, {"cut.gz"});
  }
}

TEST_F(WithFolder, RefusesADamagedChecksum) {
  std::ifstream in(compress("packed.gz", kGood), std::ios::binary);
  std::string packed((std::istreambuf_iterator<char>(in)), {});
  packed[packed.size() - 8] ^= 1;  // the CRC is the first half of the last eight bytes
  const auto file = write("bad.gz", packed);
  expect_error<InputError>([&] { read_idx(file, 2); }, {"bad.gz", "damaged"});
}

TEST_F(WithFolder, NamesOffsetAndExpectationOfAWrongHeader) {
  const auto refused = [&](const std::string& bytes, const std::vector<std::string>& words) {
    const auto file = write("wrong", bytes);
    expect_error<InputError>([&] { read_idx(file, 2); }, words);
  };
  refused(idx(8, {2, 3, 1}, "abcdef"), {"byte 0", "0x00000803", "0x00000802"});
  refused(idx(0x0d, {2, 3}, "abcdef"), {"byte 0", "0x00000d02"});
  refused(idx(8, {2, 0}, ""), {"byte 12", "dimension 1"});
  refused(idx(8, {0xffffffff, 0xffffffff}, ""), {"byte 12", "damaged"});
  refused(idx(8, {1000, 1000}, "abc"), {"truncated", "1000000"});
  refused(kGood + "x", {"more data"});
}

TEST_F(WithFolder, RefusesWhatIsNoFile) {
  expect_error<InputError>([&] { read_idx(folder(), 2); }, {"directory"});
  expect_error<InputError>([&] { read_idx(folder() / "none", 2); }, {"none", "opened"});
}

}  // namespace
}  // namespace prorata
