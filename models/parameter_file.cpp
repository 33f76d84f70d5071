#include "models/parameter_file.h"

#include "models/errors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace prorata {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian, and so are its readers here");

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the reference implementation

// A tensor of the file, and where in memory its elements are.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t count;
  std::function<float*(std::size_t)> element;
  std::uint64_t* number = nullptr;  // instead of elements: a single integer

  const char* dtype() const { return number ? "I64" : "F32"; }
  std::size_t bytes() const { return number ? sizeof(*number) : count * sizeof(float); }
};

std::vector<Tensor> tensors_of(Network& network) {
  std::vector<Tensor> tensors;
  const auto add = [&tensors](std::string name, float* data, std::size_t count) {
    tensors.push_back(
        {std::move(name), {static_cast<std::int64_t>(count)}, count, [data](std::size_t n) { return data + n; }});
  };
  for (std::size_t i = 0; i < network.depth(); ++i) {
    const Operation& op = network.operation(i);
    if (const ParameterBlock* block = network.parameters(i)) {
      float* const values = block->values.data.get();
      const ImageShape image = network.unflattened_input(i);
      tensors.push_back({op.name() + ".weight", op.torch_weight_shape(), op.weight_count(),
                         [=, &op](std::size_t n) { return values + op.torch_weight_index(n, image); }});
      if (op.bias_count() > 0) add(op.name() + ".bias", values + op.weight_count(), op.bias_count());
    }
    if (RunningStatistics* statistics = network.statistics(i)) {
      const std::size_t channels = op.statistics_channels();
      add(op.name() + ".running_mean", statistics->values.data.get(), channels);
      add(op.name() + ".running_var", statistics->values.data.get() + channels, channels);
      tensors.push_back({op.name() + ".num_batches_tracked", {}, 1, {}, &statistics->updates});
    }
  }
  // An integer is twice as wide as the others: in front, each is where a multiple of its size is.
  std::ranges::stable_partition(tensors, [](const Tensor& t) { return t.number != nullptr; });
  return tensors;
}

struct File {
  int fd;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

void write_all(int fd, const void* data, std::size_t size, const fs::path& file) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::runtime_error(file.string() + ": cannot be written: " + std::strerror(errno));
    at += n;
    size -= static_cast<std::size_t>(n);
  }
}

void sync_directory(const fs::path& directory) {
  const File dir{::open(directory.c_str(), O_RDONLY | O_DIRECTORY)};
  if (dir.fd >= 0) ::fsync(dir.fd);
}

}  // namespace

void write_parameters(Network& network, const fs::path& file) {
  network.fetch(STARPU_R);
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}, {"network", network.spec().name}};
  std::vector<char> data;
  for (const Tensor& t : tensors_of(network)) {
    const std::size_t begin = data.size();
    data.resize(begin + t.bytes());
    if (t.number) std::memcpy(data.data() + begin, t.number, sizeof(*t.number));
    for (std::size_t i = 0; !t.number && i < t.count; ++i)
      std::memcpy(data.data() + begin + i * sizeof(float), t.element(i), sizeof(float));
    header[t.name] = {{"dtype", t.dtype()}, {"shape", t.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data is to be aligned
  const std::uint64_t length = text.size();

  const fs::path temporary = file.string() + ".tmp";
  try {
    const File out{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (out.fd < 0) throw std::runtime_error(temporary.string() + ": cannot be created: " + std::strerror(errno));
    write_all(out.fd, &length, sizeof(length), temporary);
    write_all(out.fd, text.data(), text.size(), temporary);
    write_all(out.fd, data.data(), data.size(), temporary);
    if (::fsync(out.fd) != 0)
      throw std::runtime_error(temporary.string() + ": cannot be written: " + std::strerror(errno));
    if (::rename(temporary.c_str(), file.c_str()) != 0)
      throw std::runtime_error(file.string() + ": cannot be replaced: " + std::strerror(errno));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(file.parent_path().empty() ? "." : file.parent_path());
}

void read_parameters(Network& network, const fs::path& file) {
  const auto fail = [&file](const std::string& sentence) -> void { throw InputError(file.string() + ": " + sentence); };
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in || !fs::is_regular_file(file)) fail("cannot be opened; give a parameter file (safetensors)");
  const auto size = static_cast<std::uint64_t>(in.tellg());
  in.seekg(0);

  std::uint64_t length = 0;
  if (size < sizeof(length))
    fail("not a safetensors file: it has " + std::to_string(size) + " bytes, at least 8 are expected");
  in.read(reinterpret_cast<char*>(&length), sizeof(length));
  if (length > kLongestHeader || length > size - sizeof(length))
    fail("not a safetensors file, or truncated: at byte 0 it says that its header has " + std::to_string(length) +
         " bytes, but " + std::to_string(size - sizeof(length)) + " follow");
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  const std::uint64_t data_start = sizeof(length) + length;
  const std::uint64_t data_size = size - data_start;

  const nlohmann::json header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object()) fail("not a safetensors file: its header, from byte 8 on, is not a JSON object");

  const std::vector<Tensor> tensors = tensors_of(network);
  for (const auto& [name, unused] : header.items()) {
    if (name == "__metadata__") continue;
    bool known = false;
    for (const Tensor& t : tensors) known |= t.name == name;
    if (!known)
      fail("has a tensor '" + name + "' that the network '" + network.spec().name +
           "' does not have; is it of another network?");
  }

  std::map<std::string, std::vector<char>> values;
  for (const Tensor& t : tensors) {
    const std::string of = "tensor '" + t.name + "' ";
    if (!header.contains(t.name))
      fail("has no tensor '" + t.name + "', which the network '" + network.spec().name +
           "' needs; is it of another network?");
    const auto& entry = header.at(t.name);
    const auto expected = nlohmann::json(t.shape).dump();
    if (!entry.is_object() || entry.value("dtype", nlohmann::json()) != t.dtype())
      fail(of + "must have dtype " + t.dtype());
    if (entry.value("shape", nlohmann::json()) != nlohmann::json(t.shape))
      fail(of + "must have the shape " + expected + ", but has " + entry.value("shape", nlohmann::json()).dump());
    const auto offsets = entry.value("data_offsets", nlohmann::json());
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
      fail(of + "must have data_offsets [begin, end]");
    const auto begin = offsets[0].get<std::uint64_t>();
    const auto end = offsets[1].get<std::uint64_t>();
    if (end < begin || end - begin != t.bytes())
      fail(of + "must take " + std::to_string(t.bytes()) + " bytes, but its data_offsets are " + offsets.dump());
    if (end > data_size)
      fail(of + "ends at byte " + std::to_string(data_start + end) + ", but the file has " + std::to_string(size) +
           "; it is truncated");
    auto& v = values[t.name];
    v.resize(t.bytes());
    in.seekg(static_cast<std::streamoff>(data_start + begin));
    in.read(v.data(), static_cast<std::streamsize>(end - begin));
    if (!in) fail(of + "could not be read");
  }
  network.fetch(STARPU_RW);
  for (const Tensor& t : tensors) {
    const std::vector<char>& v = values.at(t.name);
    if (t.number) std::memcpy(t.number, v.data(), sizeof(*t.number));
    for (std::size_t i = 0; !t.number && i < t.count; ++i)
      std::memcpy(t.element(i), v.data() + i * sizeof(float), sizeof(float));
  }
}

}  // namespace prorata
