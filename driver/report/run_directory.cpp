#include "driver/report/run_directory.h"

#include "driver/checkpoint.h"
#include "driver/report/log.h"
#include "models/durable_file.h"
#include "models/errors.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace prorata {
namespace fs = std::filesystem;
namespace {

// runs/<model>-20261201-110203, with a number behind it where two start in one second.
fs::path fresh_directory(const std::string& model) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &local);
  const fs::path base = fs::path("runs") / (model + "-" + text);
  fs::path path = base;
  for (int n = 2; fs::exists(path); ++n) path = base.string() + "-" + std::to_string(n);
  return path;
}

}  // namespace

fs::path make_result_folder(const std::optional<fs::path>& wanted, const std::string& name, bool overwrite) {
  const fs::path path = wanted ? *wanted : fresh_directory(name);
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    throw InputError(path.string() + ": is a file; --out must name a folder");
  if (fs::is_directory(path, error) && !fs::is_empty(path, error) && !overwrite)
    throw InputError(path.string() + ": is not empty; name another folder with --out, or give --overwrite");
  fs::create_directories(path, error);
  if (error) throw InputError(path.string() + ": cannot be made: " + error.message() + "; name another with --out");
  return path;
}

void write_whole(const fs::path& file, const std::string& content) {
  const fs::path temporary = file.string() + ".tmp";
  try {
    write_durably(temporary, {content});
    rename_durably(temporary, file);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

RunDirectory::RunDirectory(const std::optional<fs::path>& wanted, const std::string& model, bool overwrite)
    : path_(make_result_folder(wanted, model, overwrite)) {
  lock();
  // What an overwritten run left must not pass for this one's.
  std::error_code ignored;
  fs::remove(path_ / "summary.json", ignored);
  Checkpoints(path_, 1).remove();
  open_metrics(std::ios::trunc);
}

RunDirectory::RunDirectory(fs::path path) : path_(std::move(path)) { lock(); }

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

void RunDirectory::lock() {
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A file system that knows no locks is no reason to refuse.
  if (lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    throw InputError(path_.string() + ": another run is writing there; wait for its end, or name another folder");
  }
}

void RunDirectory::open_metrics(std::ios::openmode mode) {
  metrics_.open(metrics_file(), mode);
  if (!metrics_) throw InputError(metrics_file().string() + ": cannot be written: " + std::strerror(errno));
}

void RunDirectory::append_metrics(const nlohmann::ordered_json& line) {
  if (elsewhere_) return;
  metrics_ << line.dump() << std::endl;
  if (!metrics_) throw std::runtime_error(metrics_file().string() + ": cannot be written; is the disk full?");
}

std::uint64_t RunDirectory::sync_metrics() {
  if (elsewhere_) return 0;
  sync_path(metrics_file());
  return fs::file_size(metrics_file());
}

void RunDirectory::go_on(std::uint64_t metrics_bytes) {
  if (elsewhere_) return;
  for (const fs::path& folder : {path_, path_ / "checkpoints"})
    if (::access(folder.c_str(), W_OK) != 0)
      throw InputError(folder.string() + ": cannot be written: " + std::strerror(errno) +
                       "; a run goes on in its own folder, or in a copy of it");
  open_metrics(std::ios::app);
  std::error_code error;
  if (fs::file_size(metrics_file()) < metrics_bytes)
    log_warning(metrics_file().string() + ": is shorter than it was; lines of before the checkpoint are missing");
  else if (fs::resize_file(metrics_file(), metrics_bytes, error); error)
    throw InputError(metrics_file().string() + ": cannot be written: " + error.message());
}

void RunDirectory::write_summary(const nlohmann::ordered_json& summary) {
  if (!elsewhere_) write_whole(path_ / "summary.json", summary.dump(2) + "\n");
}

}  // namespace prorata
