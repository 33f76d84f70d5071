// The folder of a run: summary.json, metrics.jsonl, checkpoint/model.safetensors.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace prorata {

class RunDirectory {
 public:
  // Makes it: `wanted`, or runs/<model>-<time>. InputError: it is there and not empty and `overwrite` is false, or it
  // cannot be made.
  RunDirectory(const std::optional<std::filesystem::path>& wanted, const std::string& model, bool overwrite);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint" / "model.safetensors"; }

  // One line of metrics.jsonl, written at once.
  void append_metrics(const nlohmann::ordered_json& line);
  // Written under another name and renamed: it is there whole or not at all.
  void write_summary(const nlohmann::ordered_json& summary);

 private:
  std::filesystem::path path_;
  std::ofstream metrics_;
};

}  // namespace prorata
