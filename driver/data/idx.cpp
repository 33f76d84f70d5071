#include "driver/data/idx.h"

#include "models/errors.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

namespace prorata {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;
constexpr std::size_t kChunk = std::size_t{1} << 20;

class Input {
 public:
  explicit Input(const std::filesystem::path& file) : name_(file.string()) {
    if (std::filesystem::is_directory(file)) fail("is a directory; an IDX file is expected");
    stream_.reset(gzopen(file.c_str(), "rb"));  // reads what is not compressed as it is
    if (!stream_) fail(std::string("cannot be opened: ") + std::strerror(errno));
    gzbuffer(stream_.get(), 1 << 17);
  }

  [[noreturn]] void fail(const std::string& sentence) const { throw InputError(name_ + ": " + sentence); }
  [[noreturn]] void fail_here(const std::string& sentence) const {
    fail("at byte " + std::to_string(offset_) + ": " + sentence);
  }

  // Reads up to `size` bytes.
  std::size_t read(void* to, std::size_t size) {
    const int n = gzread(stream_.get(), to, static_cast<unsigned>(size));
    int code = Z_OK;
    const char* text = gzerror(stream_.get(), &code);
    if (n < 0 || (code != Z_OK && code != Z_STREAM_END))
      fail_here(code == Z_BUF_ERROR ? "the compressed data ends too early; the file is truncated"
                                    : std::string("the compressed data is damaged (") + text + ")");
    offset_ += static_cast<std::uint64_t>(n);
    return static_cast<std::size_t>(n);
  }

  std::uint32_t big_endian(const std::string& what) {
    unsigned char b[4];
    if (read(b, 4) != 4) fail_here("the file ends where " + what + " is expected");
    return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
  }

  // Whether the bytes lie in the file as they are read.
  bool plain() const { return gzdirect(stream_.get()) == 1 && std::filesystem::is_regular_file(name_); }
  std::uint64_t offset() const { return offset_; }

 private:
  struct Close {
    void operator()(gzFile f) const { gzclose(f); }
  };
  std::string name_;
  std::unique_ptr<gzFile_s, Close> stream_;
  std::uint64_t offset_ = 0;
};

std::string hexadecimal(std::uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof(text), "0x%08x", value);
  return text;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& file, std::size_t dimensions) {
  Input in(file);
  const auto expected = static_cast<std::uint32_t>(0x0800 | dimensions);
  if (const std::uint32_t magic = in.big_endian("the magic number"); magic != expected)
    in.fail("at byte 0: the magic number is " + hexadecimal(magic) + ", but " + hexadecimal(expected) +
            " is expected (IDX, unsigned bytes, " + std::to_string(dimensions) + " dimensions)");

  IdxArray array;
  std::uint64_t size = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    array.dimensions.push_back(in.big_endian("dimension " + std::to_string(d)));
    if (array.dimensions[d] == 0) in.fail_here("dimension " + std::to_string(d) + " is 0; at least 1 is expected");
    if (size > kMostBytes / array.dimensions[d])
      in.fail_here("the dimensions make more than " + std::to_string(kMostBytes) + " bytes; the header is damaged");
    size *= array.dimensions[d];
  }

  const auto check_end = [&](std::uint64_t bytes) {
    if (bytes < size)
      in.fail_here("the file is truncated: its header announces " + std::to_string(size) + " bytes of data, but " +
                   std::to_string(bytes) + " are there");
    if (bytes > size)
      in.fail_here("there is more data than the " + std::to_string(size) + " bytes that the header announces");
  };
  if (in.plain()) {
    check_end(std::filesystem::file_size(file) - in.offset());
    array.values = Elements::mapped(file, in.offset(), ElementType::uint8, size);
    return array;
  }
  // Memory grows with what is really there, not with what a damaged header claims.
  std::vector<std::uint8_t> values;
  while (values.size() < size) {
    const std::size_t have = values.size();
    const std::size_t want = std::min<std::uint64_t>(kChunk, size - have);
    values.resize(have + want);
    const std::size_t got = in.read(values.data() + have, want);
    values.resize(have + got);
    if (got < want) break;
  }
  char more;
  check_end(values.size() + in.read(&more, 1));
  array.values = std::move(values);
  return array;
}

}  // namespace prorata
