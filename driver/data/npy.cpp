#include "driver/data/npy.h"

#include "models/errors.h"

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>

namespace prorata {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "only little-endian numbers are taken for this machine's");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint32_t kLongestHeader = 1 << 20;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;

// The dictionary: three keys, in any order, whose values are a string, True or False, and a tuple of numbers.
class Header {
 public:
  Header(const fs::path& file, std::string text, std::uint64_t begins)
      : file_(file), text_(std::move(text)), begins_(begins) {}

  [[noreturn]] void fail(const std::string& sentence) const {
    throw InputError(file_.string() + ": at byte " + std::to_string(begins_ + at_) + ": " + sentence);
  }

  void read(NpyArray& array) {
    bool has_type = false, has_order = false, has_shape = false;
    expect('{', "the header is to be a dictionary");
    while (!next_is('}')) {
      const std::string key = string("a key in quotes");
      expect(':', "a colon after the key '" + key + "'");
      if (key == "descr" && !has_type) {
        array.type = string("the type of numbers in quotes, not a list of fields,");
        has_type = true;
      } else if (key == "fortran_order" && !has_order) {
        if (boolean())
          fail("the dimensions are in Fortran's order; C's is expected: save numpy.ascontiguousarray(...)");
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        array.shape = tuple();
        has_shape = true;
      } else {
        fail("the key '" + key + "' is not, or not again, expected");
      }
      if (!next_is('}')) expect(',', "a comma between two keys");
    }
    expect('}', "the end of the dictionary");
    if (!(has_type && has_order && has_shape)) fail("the header lacks one of 'descr', 'fortran_order', 'shape'");
    skip_space();
    if (at_ != text_.size()) fail("there is more after the dictionary");
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool next_is(char wanted) {
    skip_space();
    return at_ < text_.size() && text_[at_] == wanted;
  }
  void expect(char wanted, const std::string& what) {
    if (!next_is(wanted)) fail(what + ": '" + wanted + "' is expected");
    ++at_;
  }
  std::string string(const std::string& what) {
    const char quote = next_is('"') ? '"' : '\'';
    if (!next_is(quote)) fail(what + " is expected");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) fail("the quotes do not end");
    const std::string value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (std::string_view(text_).substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    fail("True or False is expected");
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect('(', "the shape is to be a tuple");
    while (!next_is(')')) {
      std::uint64_t value = 0;
      const char* const from = text_.data() + at_;
      const auto [end, error] = std::from_chars(from, text_.data() + text_.size(), value);
      if (error != std::errc()) fail("a dimension is expected, from 0 to 2^64 - 1");
      at_ += static_cast<std::size_t>(end - from);
      values.push_back(value);
      if (!next_is(')')) expect(',', "a comma between two dimensions");
    }
    ++at_;
    return values;
  }

  const fs::path& file_;
  const std::string text_;
  const std::uint64_t begins_;
  std::size_t at_ = 0;
};

// Of one number of a type; 0: a type that is not read.
std::uint64_t bytes_of(const std::string& type) {
  for (const char* one : {"|u1", "|i1", "|b1"})
    if (type == one) return 1;
  if (type.size() != 3 || type[0] != '<' || std::string_view("iuf").find(type[1]) == std::string::npos) return 0;
  const auto size = static_cast<std::uint64_t>(type[2] - '0');
  return size == 2 || size == 4 || size == 8 ? size : 0;
}

}  // namespace

NpyArray read_npy_header(const fs::path& file) {
  const auto fail = [&file](const std::string& sentence) { throw InputError(file.string() + ": " + sentence); };
  if (!fs::is_regular_file(file)) fail("no such file");
  const std::uint64_t size = fs::file_size(file);
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(std::string("cannot be opened: ") + std::strerror(errno));

  unsigned char start[12] = {};
  in.read(reinterpret_cast<char*>(start), 8);
  if (!in || std::memcmp(start, kMagic.data(), kMagic.size()) != 0)
    fail("at byte 0: does not begin as a NumPy file does (\\x93NUMPY); write it with numpy.save");
  const unsigned version = start[6];
  if (version < 1 || version > 3 || start[7] != 0)
    fail("at byte 6: the version is " + std::to_string(version) + "." + std::to_string(start[7]) +
         ", but 1.0, 2.0 or 3.0 is expected");
  const std::uint32_t of_length = version == 1 ? 2 : 4;
  in.read(reinterpret_cast<char*>(start) + 8, of_length);
  std::uint32_t length = 0;
  for (std::uint32_t i = of_length; i-- > 0;) length = length << 8 | start[8 + i];
  NpyArray array;
  array.offset = 8 + of_length + std::uint64_t{length};
  if (!in || length > kLongestHeader || array.offset > size)
    fail("at byte 8: the header's length is " + std::to_string(length) +
         " bytes, but the file ends before; it is truncated or damaged");
  std::string text(length, '\0');
  if (!in.read(text.data(), length)) fail("cannot be read");
  Header(file, std::move(text), 8 + of_length).read(array);

  const std::uint64_t one = bytes_of(array.type);
  if (one == 0)
    fail(
        "the numbers are of the type '" + array.type +
        "', but whole numbers or floats in the order of bytes of this machine ('|u1', '<i4', '<f4', ...) are expected");
  array.count = 1;
  for (const std::uint64_t dimension : array.shape) {
    if (dimension == 0) fail("a dimension of the shape is 0; at least 1 is expected");
    if (array.count > kMostBytes / one / dimension)
      fail("the shape makes more than " + std::to_string(kMostBytes) + " bytes; the header is damaged");
    array.count *= dimension;
  }
  if (size - array.offset != array.count * one)
    fail("at byte " + std::to_string(array.offset) + ": the header announces " + std::to_string(array.count * one) +
         " bytes of numbers, but " + std::to_string(size - array.offset) + " are there" +
         (size - array.offset < array.count * one ? "; the file is truncated" : ""));
  return array;
}

}  // namespace prorata
