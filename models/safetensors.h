// The file format safetensors, for tensors of float32, and single integers of 64 bits.
//
// Format: https://github.com/huggingface/safetensors. 8 bytes little-endian header length; a JSON object that says of
// each tensor `dtype`, `shape` and `data_offsets` [begin, end) in what follows; the data, without overlap or gap. A
// reader checks all that before it trusts, for such files travel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace prorata {

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;                 // as many as the shape says, the last dimension fastest
  std::optional<std::int64_t> integer = {};  // in place of them; the shape is []
};

// Writes and syncs; the caller makes sure that nobody takes a half-written file for a whole one. std::runtime_error
// names file and cause.
void write_safetensors(const std::filesystem::path& file, const std::map<std::string, std::string>& metadata,
                       const std::vector<Tensor>& tensors);

class SafetensorsFile {
 public:
  // Reads and checks the header. InputError names file, place and expectation.
  explicit SafetensorsFile(std::filesystem::path file);

  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return entries_.contains(name); }
  // A tensor that is there; InputError where its type or shape is another.
  std::vector<float> read(const std::string& name, const std::vector<std::int64_t>& shape) const;
  // The same for an integer.
  std::int64_t read_integer(const std::string& name) const;

  [[noreturn]] void fail(const std::string& sentence) const;

 private:
  struct Entry {
    std::string dtype, shape;  // as the header has them
    std::uint64_t begin, end;  // in the data
  };
  void read_header(const std::string& text);
  void read(const std::string& name, const char* dtype, const std::vector<std::int64_t>& shape, void* to,
            std::size_t bytes) const;
  void check_layout() const;

  std::filesystem::path file_;
  mutable std::ifstream in_;  // one for all of it: the name may be another file's a moment later
  std::uint64_t size_ = 0, data_start_ = 0;
  std::map<std::string, Entry> entries_;
};

}  // namespace prorata
