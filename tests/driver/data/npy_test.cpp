#include "driver/data/npy.h"

#include "models/errors.h"
#include "tests/driver/data/files.h"

namespace prorata {
namespace {

using test::npy;

class Npy : public test::WithFolder {
 protected:
  void expect_refused(const std::string& bytes, const std::vector<std::string>& words) const {
    const auto file = write("wrong.npy", bytes);
    expect_error<InputError>([&] { read_npy_header(file); }, words);
  }
};

const std::string kGood = npy("<f4", "(2, 3)", std::string(24, 'x'));

TEST_F(Npy, HasTypeShapeAndPlaceOfTheNumbers) {
  const NpyArray array = read_npy_header(write("good.npy", kGood));
  EXPECT_EQ(array.type, "<f4");
  EXPECT_EQ(array.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(array.count, 6u);
  EXPECT_EQ(array.offset, kGood.size() - 24);
}

TEST_F(Npy, IsReadInEveryVersionAndHoweverTheDictionaryIsWritten) {
  const std::string dictionary = "{\"shape\":(7,),'fortran_order':False , 'descr':'|u1'}\n";
  for (const char version : {1, 2, 3}) {
    std::string bytes = std::string("\x93NUMPY", 6) + version + '\0';
    bytes += static_cast<char>(dictionary.size());
    bytes += std::string(version == 1 ? 1 : 3, '\0') + dictionary + "numbers";
    const NpyArray array = read_npy_header(write("version.npy", bytes));
    EXPECT_EQ(array.shape, (std::vector<std::uint64_t>{7}));
    EXPECT_EQ(array.offset, bytes.size() - 7);
  }
  EXPECT_EQ(read_npy_header(write("scalar.npy", npy("<i8", "()", std::string(8, 'x')))).count, 1u);
}

TEST_F(Npy, IsRefusedWhereverItEndsTooEarly) {
  for (std::size_t length = 0; length < kGood.size(); ++length) {
    SCOPED_TRACE(length);
    expect_refused(kGood.substr(0, length), {"wrong.npy"});
  }
  expect_refused(kGood + "x", {"24 bytes", "25 are there"});
}

TEST_F(Npy, NamesThePlaceOfWhatIsWrong) {
  expect_refused("PK\x03\x04 a zip file, as of numpy.savez", {"byte 0", "numpy.save"});
  std::string version = kGood;
  version[6] = 4;
  expect_refused(version, {"byte 6", "4.0"});
  std::string length = kGood;
  length[9] = '\x7f';
  expect_refused(length, {"byte 8", "truncated"});
  expect_refused(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12) + kGood, {"byte 8", "4294967295"});
  expect_refused(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", std::string(24, 'x')),
                 {"Fortran", "ascontiguousarray"});
  expect_refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", ""), {"fields"});
  expect_refused(npy("{'descr': '<f4', 'shape': (2,), }", ""), {"lacks"});
  expect_refused(npy("{'descr': '<f4', 'descr': '<f4', 'shape': (2,), }", ""), {"byte", "descr", "again"});
  expect_refused(npy("{'descr': '<f4', 'colour': 3}", ""), {"colour"});
  expect_refused(npy("{'descr': '<f4", ""), {"quotes"});
  expect_refused(npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", ""), {"True or False"});
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } + x", ""), {"after the dictionary"});
  expect_refused(npy("[1, 2]", ""), {"dictionary"});
  for (const char* type : {">f4", "<f9", "<c8", "|O", "<U1", "|S3", "", "<", "<f4, <f4"})
    expect_refused(npy(type, "(1,)", std::string(8, 'x')), {"type", std::string("'") + type + "'"});
  for (const char* shape : {"(-1,)", "(2 3)", "(two,)", "(99999999999999999999,)", "2"})
    expect_refused(npy("<f4", shape, ""), {"byte"});
}

TEST_F(Npy, HasNoSizesThatOverflow) {
  expect_refused(npy("<f4", "(4294967296, 4294967296)", ""), {"damaged"});
  expect_refused(npy("<f4", "(4611686018427387904,)", ""), {"damaged"});
  expect_refused(npy("<f4", "(18446744073709551615, 2)", ""), {"damaged"});
  expect_refused(npy("|u1", "(0, 5)", ""), {"is 0"});
  expect_refused(npy("|u1", "(1000000,)", "abc"), {"1000000", "3 are there", "truncated"});
}

TEST_F(Npy, IsNoFolder) {
  expect_error<InputError>([&] { read_npy_header(folder()); }, {"no such file"});
  expect_error<InputError>([&] { read_npy_header(folder() / "none.npy"); }, {"none.npy"});
}

}  // namespace
}  // namespace prorata
