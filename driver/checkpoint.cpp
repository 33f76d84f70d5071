#include "driver/checkpoint.h"

#include "models/durable_file.h"
#include "models/errors.h"
#include "models/parameter_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <vector>

namespace prorata {
namespace fs = std::filesystem;
using nlohmann::json;
namespace {

constexpr int kFormat = 1;
constexpr const char* kTemporary = ".tmp";
constexpr const char* kChecksum = "crc32";  // of state.json, in it
constexpr const char* kFiles[] = {"model.safetensors", "optimizer.safetensors", "network.toml"};

// Size and checksum of a file.
json seal(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error(file.string() + ": cannot be read");
  std::vector<char> buffer(std::size_t{1} << 20);
  std::uint64_t size = 0;
  uLong crc = crc32(0, nullptr, 0);
  while (in.read(buffer.data(), std::ssize(buffer)), in.gcount() > 0) {
    crc = crc32(crc, reinterpret_cast<const Bytef*>(buffer.data()), static_cast<uInt>(in.gcount()));
    size += static_cast<std::uint64_t>(in.gcount());
  }
  return {{"bytes", size}, {"crc32", crc}};
}

// Of all else that state.json has.
uLong checksum_of(json state) {
  state.erase(kChecksum);
  const std::string text = state.dump();
  return crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
}

// The numbers of the checkpoints, ascending.
std::vector<std::uint64_t> numbers_in(const fs::path& folder) {
  std::vector<std::uint64_t> numbers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::uint64_t number = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (wrong == std::errc() && end == name.data() + name.size()) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The folder of the last checkpoint itself, for a link may be another one's tomorrow. A run that was killed between its
// first checkpoint and the link to it has none yet, and one that was copied may have lost it.
std::optional<fs::path> find_last(const fs::path& run) {
  std::error_code error;
  if (fs::path folder = fs::canonical(run / "checkpoint", error); !error && fs::is_directory(folder, error))
    return folder;
  const std::vector<std::uint64_t> numbers = numbers_in(run / "checkpoints");
  if (numbers.empty()) return std::nullopt;
  return run / "checkpoints" / std::to_string(numbers.back());
}

}  // namespace

Checkpoints::Checkpoints(fs::path run, std::size_t keep) : run_(std::move(run)), keep_(keep) {
  std::error_code ignored;
  fs::remove(last().string() + kTemporary, ignored);
  for (const auto& entry : fs::directory_iterator(run_ / "checkpoints", ignored))
    if (entry.path().extension() == kTemporary) fs::remove_all(entry.path(), ignored);
}

std::string Checkpoints::going_on() const {
  std::error_code error;
  const fs::path checkpoint = fs::canonical(last(), error);
  if (error) return "; there is no checkpoint yet to go on from";
  return "; --resume --out " + run_.string() + " goes on from " + checkpoint.string();
}

void Checkpoints::remove() {
  std::error_code ignored;
  fs::remove_all(last(), ignored);
  fs::remove_all(run_ / "checkpoints", ignored);
}

void Checkpoints::write(const Network& network, const std::string& network_file, json state) {
  const fs::path all = run_ / "checkpoints";
  const std::vector<std::uint64_t> numbers = numbers_in(all);
  const std::string name = std::to_string(numbers.empty() ? 1 : numbers.back() + 1);
  const fs::path temporary = all / (name + kTemporary);
  std::error_code error;
  try {
    if (fs::create_directories(temporary, error); error)
      throw std::runtime_error(temporary.string() + ": cannot be made: " + error.message());
    write_files(temporary, network, network_file, state);
    rename_durably(temporary, all / name);
    sync_path(run_);
    link_to(name);
  } catch (const std::runtime_error& e) {
    fs::remove_all(temporary, error);
    throw std::runtime_error(
        std::string(e.what()) + "; no checkpoint was written" +
        (fs::exists(last(), error)
             ? ", but the one before it is whole: make room, and go on with --resume --out " + run_.string()
             : ""));
  }
  remove_old();
}

void Checkpoints::write_files(const fs::path& folder, const Network& network, const std::string& network_file,
                              json& state) const {
  write_parameters(network, folder / kFiles[0]);
  write_optimizer_state(network, folder / kFiles[1]);
  write_durably(folder / kFiles[2], {network_file});
  state["format"] = kFormat;
  for (const char* file : kFiles) state["files"][file] = seal(folder / file);
  state[kChecksum] = checksum_of(state);
  write_durably(folder / "state.json", {state.dump(1), "\n"});
  sync_path(folder);
}

void Checkpoints::link_to(const std::string& name) const {
  const fs::path temporary = last().string() + kTemporary;
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_directory_symlink(fs::path("checkpoints") / name, temporary, error);
  if (error) throw std::runtime_error(temporary.string() + ": cannot be made: " + error.message());
  rename_durably(temporary, last());
}

// Never the last one, which after a --resume by hand need not have the greatest number.
void Checkpoints::remove_old() const {
  const fs::path all = run_ / "checkpoints";
  const std::vector<std::uint64_t> numbers = numbers_in(all);
  std::error_code error;
  const std::string last_name = fs::read_symlink(last(), error).filename().string();
  for (std::size_t i = 0; i + keep_ < numbers.size(); ++i) {
    const std::string name = std::to_string(numbers[i]);
    if (name == last_name) continue;
    fs::rename(all / name, all / (name + kTemporary), error);
    fs::remove_all(all / (name + kTemporary), error);
  }
}

Checkpoint read_checkpoint(const fs::path& run) {
  std::error_code error;
  if (!fs::is_directory(run, error))
    throw InputError(run.string() + ": no such run directory; --resume goes on with the run that --out names");
  const std::optional<fs::path> folder = find_last(run);
  if (!folder)
    throw InputError(run.string() +
                     ": has no checkpoint to go on from, for the run ended before it wrote one; begin anew with "
                     "--overwrite in place of --resume");
  if (const fs::path link = run / "checkpoint"; fs::exists(link, error) && !fs::is_symlink(link, error))
    throw InputError(link.string() + ": must be a link to one of " + (run / "checkpoints").string() +
                     ", but is a folder, perhaps since the run was copied; remove it, and the last of them is gone on "
                     "from");
  Checkpoint c{*folder, {}};
  const fs::path file = c.state_file();
  const std::string hint = "; an earlier checkpoint may be in " + (run / "checkpoints").string() + ": point the link " +
                           (run / "checkpoint").string() + " to it";
  std::ifstream in(file);
  if (!in) throw InputError(file.string() + ": cannot be opened, so there is no going on from here" + hint);
  c.state = json::parse(in, nullptr, false);
  if (!c.state.is_object()) throw InputError(file.string() + ": is not a JSON object; it is damaged" + hint);
  if (const json format = c.state.value("format", json()); format != kFormat)
    throw InputError(file.string() + ": has format " + format.dump() + ", but " + std::to_string(kFormat) +
                     " is expected; go on with the version of prorata that wrote it");
  if (c.state.value(kChecksum, json()) != checksum_of(c.state))
    throw InputError(file.string() + ": has another checksum (crc32) than it says; it is damaged or was changed" +
                     hint);
  const json sealed = c.state.value("files", json());
  for (const char* name : kFiles) {
    const fs::path sealed_file = c.folder / name;
    if (!fs::is_regular_file(sealed_file, error)) throw InputError(sealed_file.string() + ": is missing" + hint);
    if (!sealed.is_object() || sealed.value(name, json()) != seal(sealed_file))
      throw InputError(sealed_file.string() + ": is not the file that " + file.filename().string() +
                       " describes (bytes, crc32); it is damaged or was changed" + hint);
  }
  return c;
}

fs::path find_parameters(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const fs::path& inside : {path / "checkpoint" / "model.safetensors", path / "model.safetensors"})
    if (fs::exists(inside, error)) return inside;
  if (const std::optional<fs::path> folder = find_last(path)) return *folder / "model.safetensors";
  throw InputError(path.string() + ": has no checkpoint/model.safetensors; name a run directory or the file");
}

fs::path find_network_of(const fs::path& parameters, const std::string& model) {
  std::error_code error;
  const fs::path beside = parameters.parent_path() / "network.toml";
  return model.empty() && fs::is_regular_file(beside, error) ? beside : find_network(model.empty() ? "lenet5" : model);
}

}  // namespace prorata
