#include "driver/report/run_directory.h"

#include "models/errors.h"

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
  std::ofstream out(temporary, std::ios::trunc | std::ios::binary);
  out << content;
  out.close();
  if (!out) throw std::runtime_error(temporary.string() + ": cannot be written; is the disk full?");
  fs::rename(temporary, file);
}

RunDirectory::RunDirectory(const std::optional<fs::path>& wanted, const std::string& model, bool overwrite)
    : path_(make_result_folder(wanted, model, overwrite)) {
  std::error_code error;
  fs::create_directories(path_ / "checkpoint", error);
  if (error) throw InputError(path_.string() + ": cannot be made: " + error.message() + "; name another with --out");
  // What an overwritten run left must not pass for this one's.
  fs::remove(path_ / "summary.json", error);
  fs::remove(checkpoint(), error);
  const fs::path metrics = path_ / "metrics.jsonl";
  metrics_.open(metrics, std::ios::trunc);
  if (!metrics_) throw InputError(metrics.string() + ": cannot be written: " + std::strerror(errno));
}

void RunDirectory::append_metrics(const nlohmann::ordered_json& line) {
  metrics_ << line.dump() << std::endl;
  if (!metrics_)
    throw std::runtime_error((path_ / "metrics.jsonl").string() + ": cannot be written; is the disk full?");
}

void RunDirectory::write_summary(const nlohmann::ordered_json& summary) {
  write_whole(path_ / "summary.json", summary.dump(2) + "\n");
}

}  // namespace prorata
