#include "models/safetensors.h"

#include "models/durable_file.h"
#include "models/errors.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

namespace prorata {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian, and so are its readers here");

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the reference implementation
constexpr const char* kMetadata = "__metadata__";

std::string_view bytes_of(const void* data, std::size_t size) { return {static_cast<const char*>(data), size}; }

}  // namespace

void write_safetensors(const fs::path& file, const std::map<std::string, std::string>& metadata,
                       const std::vector<Tensor>& tensors) {
  nlohmann::ordered_json header;
  header[kMetadata] = metadata;
  std::string data;
  const auto add = [&](const Tensor& t, const char* dtype, std::string_view bytes) {
    const std::size_t begin = data.size();
    data += bytes;
    header[t.name] = {{"dtype", dtype}, {"shape", t.shape}, {"data_offsets", {begin, data.size()}}};
  };
  // An integer is twice as wide as the others: in front, each is where a multiple of its size is.
  for (const Tensor& t : tensors)
    if (t.integer) add(t, "I64", bytes_of(&*t.integer, sizeof(*t.integer)));
  for (const Tensor& t : tensors)
    if (!t.integer) add(t, "F32", bytes_of(t.values.data(), t.values.size() * sizeof(float)));
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data is to be aligned
  const std::uint64_t length = text.size();
  write_durably(file, {bytes_of(&length, sizeof(length)), text, data});
}

void SafetensorsFile::fail(const std::string& sentence) const { throw InputError(file_.string() + ": " + sentence); }

SafetensorsFile::SafetensorsFile(fs::path file) : file_(std::move(file)) {
  std::error_code error;
  if (!fs::is_regular_file(file_, error)) fail("no such file; give a parameter file (safetensors)");
  in_.open(file_, std::ios::binary | std::ios::ate);
  if (!in_) fail("cannot be opened; may it be read?");
  size_ = static_cast<std::uint64_t>(in_.tellg());
  in_.seekg(0);
  std::uint64_t length = 0;
  if (size_ < sizeof(length))
    fail("not a safetensors file: it has " + std::to_string(size_) + " bytes, at least 8 are expected");
  in_.read(reinterpret_cast<char*>(&length), sizeof(length));
  if (length > kLongestHeader || length > size_ - sizeof(length))
    fail("not a safetensors file, or truncated: at byte 0 it says that its header has " + std::to_string(length) +
         " bytes, but " + std::to_string(size_ - sizeof(length)) + " follow");
  std::string text(length, '\0');
  in_.read(text.data(), static_cast<std::streamsize>(length));
  if (!in_) fail("its header could not be read");
  data_start_ = sizeof(length) + length;
  read_header(text);
  check_layout();
}

void SafetensorsFile::read_header(const std::string& text) {
  using Json = nlohmann::json;
  // A name that is there twice would leave open which one counts, and depth costs memory.
  std::vector<std::set<std::string>> keys(4);
  const auto guard = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    const auto d = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (depth > 2) fail("not a safetensors file: its header is nested too deeply");
      keys[d + 1].clear();
    }
    if (event == Json::parse_event_t::key && !keys[d].insert(parsed.get<std::string>()).second)
      fail("its header has the name '" + parsed.get<std::string>() + "' twice");
    return true;
  };
  const Json header = Json::parse(text, guard, false);
  if (!header.is_object()) fail("not a safetensors file: its header, from byte 8 on, is not a JSON object");
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    const Json none;
    const Json& of = entry.is_object() ? entry : none;
    const Json dtype = of.is_object() ? of.value("dtype", none) : none;
    const Json offsets = of.is_object() ? of.value("data_offsets", none) : none;
    if (!dtype.is_string()) fail("tensor '" + name + "' must have a dtype");
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
      fail("tensor '" + name + "' must have data_offsets [begin, end]");
    entries_[name] = {dtype.get<std::string>(), of.value("shape", none).dump(), offsets[0].get<std::uint64_t>(),
                      offsets[1].get<std::uint64_t>()};
  }
}

// Without overlap or gap, to the end of the file.
void SafetensorsFile::check_layout() const {
  std::vector<const std::pair<const std::string, Entry>*> order;
  for (const auto& named : entries_) order.push_back(&named);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  const std::uint64_t data_size = size_ - data_start_;
  std::uint64_t end = 0;
  for (const auto* named : order) {
    const Entry& e = named->second;
    const std::string offsets = "its data_offsets are [" + std::to_string(e.begin) + "," + std::to_string(e.end) + "]";
    if (e.end > data_size)
      fail("tensor '" + named->first + "' ends behind the file's end, for " + offsets + ", and " +
           std::to_string(data_size) + " bytes of data are there; is the file truncated?");
    if (e.begin != end || e.end < e.begin)
      fail("tensor '" + named->first + "' must begin where the one before it ends, at " + std::to_string(end) +
           ", but " + offsets);
    end = e.end;
  }
  if (end != data_size)
    fail("has " + std::to_string(data_size - end) + " bytes behind its last tensor, at byte " +
         std::to_string(data_start_ + end) + "; the file is damaged");
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, unused] : entries_) names.push_back(name);
  return names;
}

void SafetensorsFile::read(const std::string& name, const char* dtype, const std::vector<std::int64_t>& shape, void* to,
                           std::size_t bytes) const {
  const Entry& e = entries_.at(name);
  const std::string of = "tensor '" + name + "' ";
  if (e.dtype != dtype) fail(of + "must have dtype " + dtype + ", but has " + e.dtype);
  const std::string expected = nlohmann::json(shape).dump();
  if (e.shape != expected) fail(of + "must have the shape " + expected + ", but has " + e.shape);
  if (e.end - e.begin != bytes)
    fail(of + "must take " + std::to_string(bytes) + " bytes, but its data_offsets are [" + std::to_string(e.begin) +
         "," + std::to_string(e.end) + "]");
  in_.seekg(static_cast<std::streamoff>(data_start_ + e.begin));
  in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  if (!in_) fail(of + "could not be read");
}

std::vector<float> SafetensorsFile::read(const std::string& name, const std::vector<std::int64_t>& shape) const {
  std::size_t count = 1;
  for (const std::int64_t n : shape) count *= static_cast<std::size_t>(n);
  std::vector<float> values(count);
  read(name, "F32", shape, values.data(), count * sizeof(float));
  return values;
}

std::int64_t SafetensorsFile::read_integer(const std::string& name) const {
  std::int64_t value = 0;
  read(name, "I64", {}, &value, sizeof(value));
  return value;
}

}  // namespace prorata
