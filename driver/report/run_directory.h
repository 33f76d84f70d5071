// The folder of a run: summary.json, metrics.jsonl; checkpoints are driver/checkpoint.h's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace prorata {

// Makes a folder for results: `wanted`, or runs/<name>-<time>. InputError: it is there and not empty and `overwrite` is
// false, or it cannot be made.
std::filesystem::path make_result_folder(const std::optional<std::filesystem::path>& wanted, const std::string& name,
                                         bool overwrite);

// Written under another name and renamed: it is there whole or not at all.
void write_whole(const std::filesystem::path& file, const std::string& content);

// One that another process writes: whatever is written to it here goes nowhere.
struct WrittenElsewhere {
  std::filesystem::path path;
};

class RunDirectory {
 public:
  // Makes it, as make_result_folder(), without what an overwritten run left. InputError: another process has it.
  RunDirectory(const std::optional<std::filesystem::path>& wanted, const std::string& model, bool overwrite);
  // One that is there, to be gone on with: go_on() says from where. InputError: another process has it.
  explicit RunDirectory(std::filesystem::path path);
  explicit RunDirectory(WrittenElsewhere directory) : path_(std::move(directory.path)), elsewhere_(true) {}
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // One line of metrics.jsonl, written at once.
  void append_metrics(const nlohmann::ordered_json& line);
  // How many bytes metrics.jsonl has; they are on the disk then.
  std::uint64_t sync_metrics();
  // Where metrics.jsonl had so many bytes; what is behind them goes. InputError: it, or the folder, cannot be written.
  void go_on(std::uint64_t metrics_bytes);
  void write_summary(const nlohmann::ordered_json& summary);

 private:
  std::filesystem::path metrics_file() const { return path_ / "metrics.jsonl"; }
  void lock();
  void open_metrics(std::ios::openmode mode);

  std::filesystem::path path_;
  const bool elsewhere_ = false;
  int lock_ = -1;  // the folder, for this process alone
  std::ofstream metrics_;
};

}  // namespace prorata
