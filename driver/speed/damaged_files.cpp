#include "driver/speed/damaged_files.h"

#include "codelets/codelet.h"
#include "driver/report/log.h"
#include "driver/runtime.h"
#include "models/errors.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <sstream>
#include <system_error>

namespace prorata {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kVersion = 45;  // of the models' format; a folder has its name

struct Damaged {};

// A file as StarPU reads it: words between white space, and comments from # to the end of the line. Where there is no
// such word any more Damaged is thrown.
class Words {
 public:
  explicit Words(const std::string& text) {
    std::istringstream lines(text);
    std::string all;
    for (std::string line; std::getline(lines, line);) all += line.substr(0, line.find('#')) + '\n';
    words_.str(all);
  }

  std::string word() {
    std::string next;
    if (!(words_ >> next)) throw Damaged();
    return next;
  }
  template <class T>
  T number() {
    const std::string next = word();
    T value{};
    const auto [end, error] = std::from_chars(next.data(), next.data() + next.size(), value);
    if (error != std::errc() || end != next.data() + next.size()) throw Damaged();
    return value;
  }

 private:
  std::istringstream words_;
};

bool is_whole(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const Damaged&) {
    return false;
  }
}

// Where there is flops, it may be not a number; nothing is below 0.
void read_entry(Words& words) {
  words.word();                 // the footprint
  words.number<std::size_t>();  // the size
  const auto flops = words.number<double>();
  if (!std::isnan(flops) && !(flops >= 0)) throw Damaged();
  for (int i = 0; i < 4; ++i)  // mean, deviation, and two sums
    if (!(words.number<double>() >= 0)) throw Damaged();
  words.number<unsigned>();  // of measurements
}

void read_implementation(Words& words) {
  constexpr int kOfRegressions = 12;
  const auto entries = words.number<unsigned>();
  for (int i = 0; i < kOfRegressions; ++i) words.number<double>();
  for (auto coefficients = words.number<unsigned>(); coefficients > 0; --coefficients) words.number<double>();
  for (unsigned i = 0; i < entries; ++i) read_entry(words);
}

// While it lives nobody writes the file: StarPU takes a lock to write.
class ReadLock {
 public:
  explicit ReadLock(const fs::path& file) : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct flock whole {};
    whole.l_type = F_RDLCK;
    whole.l_whence = SEEK_SET;
    if (descriptor_ >= 0) fcntl(descriptor_, F_SETLKW, &whole);  // where there are no locks StarPU goes without, too
  }
  ~ReadLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;

  // False where there is no such file, or it may not be read; StarPU then takes it for none.
  bool opened() const { return descriptor_ >= 0; }

  std::string text() const {
    std::string all;
    char part[4096];
    for (ssize_t n = 0; (n = read(descriptor_, part, sizeof(part))) > 0;) all.append(part, static_cast<std::size_t>(n));
    return all;
  }

 private:
  int descriptor_;
};

// The text of the file, empty where there is none; what is not whole is moved aside.
std::string check(const fs::path& file, const std::function<bool(const std::string&)>& whole,
                  const std::string& measured) {
  const ReadLock lock(file);
  if (!lock.opened()) return {};
  std::string text = lock.text();
  if (whole(text)) return text;
  const fs::path aside = file.string() + ".damaged";
  std::error_code error;
  fs::rename(file, aside, error);
  if (error == std::errc::no_such_file_or_directory) return {};  // another run was faster
  const std::string what = file.string() + " is damaged: StarPU was stopped while it wrote it, or the disk was full";
  if (error) throw InputError(what + ". It cannot be moved aside (" + error.message() + "): remove it");
  log_warning(what + ". It is now " + aside.string() + ", and " + measured + " is measured anew");
  return {};
}

}  // namespace

bool is_whole_model(const std::string& text) {
  if (text.empty()) return true;  // as it is to StarPU, and for a moment whenever a new one is written
  return text.back() == '\n' && is_whole([&] {
           Words words(text);
           if (words.number<unsigned>() != kVersion) throw Damaged();
           for (auto combinations = words.number<unsigned>(); combinations > 0; --combinations) {
             for (auto devices = words.number<unsigned>(); devices > 0; --devices)
               for (int i = 0; i < 3; ++i) words.number<unsigned>();  // kind, number, cores
             for (auto implementations = words.number<unsigned>(); implementations > 0; --implementations)
               read_implementation(words);
           }
         });
}

bool is_whole_bus_config(const std::string& text) {
  return is_whole([&] {
    Words words(text);
    for (int i = 0; i < 4; ++i) words.number<unsigned>();  // CPU cores, NUMA nodes, CUDA and OpenCL devices
  });
}

bool is_whole_bus_affinity(const std::string& text, const std::string& config) {
  return text.starts_with("# GPU\tNUMA") && is_whole([&] {
           Words counts(config), words(text);
           counts.word();
           const auto nodes = counts.number<unsigned>();
           const auto devices = counts.number<unsigned>() + counts.number<unsigned>();
           for (unsigned i = 0; i < devices * (1 + nodes); ++i) words.number<int>();
         });
}

void set_damaged_models_aside() {
  const fs::path codelets = model_directory() / "codelets" / std::to_string(kVersion);
  for (const Codelet* codelet : Codelet::all())
    check(codelets / (std::string(codelet->starpu()->model->symbol) + "." + model_host()), is_whole_model,
          "the speed of " + codelet->name());
  constexpr const char* kBus = "the speed of copies between memories";
  const fs::path bus = model_directory() / "bus";
  const std::string config = check(bus / (model_host() + ".config"), is_whole_bus_config, kBus);
  if (!config.empty())  // without it StarPU measures all anew
    check(
        bus / (model_host() + ".affinity"),
        [&](const std::string& text) { return is_whole_bus_affinity(text, config); }, kBus);
}

}  // namespace prorata
