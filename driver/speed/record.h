// The record of a calibration: what StarPU's model files cannot hold. One JSON file a network and host, beside them:
// <STARPU_PERF_MODEL_DIR>/prorata-<network>.<host>.json. docs/cli.md describes it for users.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace prorata {

// Which entry of StarPU's models: see entries.h.
struct EntryName {
  std::string codelet;
  std::string model;  // of which workers, as "cpu0"
  std::string implementation;
  std::uint32_t footprint;
  auto operator<=>(const EntryName&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 is wrong here
};

struct Measurement {
  double seconds;  // the median
  double spread;   // half the range of the middle half, as a fraction of the median
  unsigned measurements;
};

// What the figures depend on, besides the machine's mood.
struct Circumstances {
  std::string cpu;
  std::string version;  // of Prorata
  std::string starpu_version;
  std::map<std::string, std::string> libraries;                     // name, version
  std::map<std::string, std::vector<std::string>> implementations;  // of each codelet
};
Circumstances circumstances_now();

struct CalibrationRecord {
  std::string network;
  std::string host;     // as StarPU calls it
  std::string written;  // UTC
  Circumstances circumstances;
  bool homogeneous_cpu = true;  // CPU workers share one model
  std::vector<std::int32_t> batches;
  std::map<EntryName, Measurement> entries;
};

std::filesystem::path record_path(const std::string& network);

// None where there is no file. InputError: it is no such record.
std::optional<CalibrationRecord> read_record(const std::string& network);
// Written under another name and renamed: it is there whole or not at all. InputError: it cannot be written.
void write_record(const CalibrationRecord& record);

// What differs from the circumstances of the record, in words; empty where nothing does.
std::string differences(const Circumstances& then, const Circumstances& now);

}  // namespace prorata
