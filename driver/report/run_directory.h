// The folder of a run: summary.json, metrics.jsonl, checkpoint/model.safetensors.
#pragma once

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

class RunDirectory {
 public:
  // Makes it, as make_result_folder().
  RunDirectory(const std::optional<std::filesystem::path>& wanted, const std::string& model, bool overwrite);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint" / "model.safetensors"; }

  // One line of metrics.jsonl, written at once.
  void append_metrics(const nlohmann::ordered_json& line);
  void write_summary(const nlohmann::ordered_json& summary);

 private:
  std::filesystem::path path_;
  std::ofstream metrics_;
};

}  // namespace prorata
