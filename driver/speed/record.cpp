#include "driver/speed/record.h"

#include "codelets/backend/gemm.h"
#include "codelets/codelet.h"
#include "driver/report/topology.h"
#include "driver/runtime.h"
#include "models/errors.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace prorata {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

// One entry a line, or a reader would drown in brackets.
std::string entries_text(const std::map<EntryName, Measurement>& entries) {
  std::string text = "[";
  const char* separator = "\n";
  for (const auto& [name, m] : entries) {
    char footprint[16];
    std::snprintf(footprint, sizeof(footprint), "%08x", name.footprint);
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%.4g", m.seconds);
    char spread[32];
    std::snprintf(spread, sizeof(spread), "%.2g", m.spread);
    text += std::string(separator) + "    [" + Json(name.codelet).dump() + ", " + Json(name.model).dump() + ", " +
            Json(name.implementation).dump() + ", \"" + footprint + "\", " + seconds + ", " + spread + ", " +
            std::to_string(m.measurements) + "]";
    separator = ",\n";
  }
  return text + "\n  ]";
}

CalibrationRecord parse(const Json& j) {
  if (j.at("format") != kFormat) throw std::runtime_error("its format is not " + std::to_string(kFormat));
  CalibrationRecord r;
  j.at("network").get_to(r.network);
  j.at("host").get_to(r.host);
  j.at("written").get_to(r.written);
  j.at("cpu").get_to(r.circumstances.cpu);
  j.at("version").get_to(r.circumstances.version);
  j.at("starpu_version").get_to(r.circumstances.starpu_version);
  j.at("libraries").get_to(r.circumstances.libraries);
  j.at("implementations").get_to(r.circumstances.implementations);
  j.at("homogeneous_cpu").get_to(r.homogeneous_cpu);
  j.at("batches").get_to(r.batches);
  for (const Json& e : j.at("entries")) {
    EntryName name{e.at(0), e.at(1), e.at(2),
                   static_cast<std::uint32_t>(std::stoul(e.at(3).get<std::string>(), nullptr, 16))};
    const Measurement m{e.at(4), e.at(5), e.at(6)};
    if (!(m.seconds > 0)) throw std::runtime_error("a time is not above 0");
    r.entries.emplace(std::move(name), m);
  }
  return r;
}

}  // namespace

Circumstances circumstances_now() {
  Circumstances c{cpu_name(), PRORATA_VERSION, starpu_version(), library_versions(), {}};
  for (const Codelet* codelet : Codelet::all())
    for (const std::string& name : codelet->implementations(STARPU_CPU_WORKER))
      c.implementations[codelet->name()].push_back(name);
  return c;
}

fs::path record_path(const std::string& network) {
  std::string name = network;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  return model_directory() / ("prorata-" + name + "." + model_host() + ".json");
}

std::optional<CalibrationRecord> read_record(const std::string& network) {
  const fs::path path = record_path(network);
  std::ifstream in(path);
  if (!in) return std::nullopt;
  try {
    return parse(Json::parse(in));
  } catch (const std::exception& e) {
    throw InputError(path.string() + ": is no record of a calibration (" + e.what() +
                     "); take it away, or write it anew with 'prorata calibrate'");
  }
}

void write_record(const CalibrationRecord& r) {
  const fs::path path = record_path(r.network);
  const Circumstances& c = r.circumstances;
  const Json head = {{"format", kFormat},
                     {"network", r.network},
                     {"host", r.host},
                     {"written", r.written},
                     {"cpu", c.cpu},
                     {"version", c.version},
                     {"starpu_version", c.starpu_version},
                     {"libraries", c.libraries},
                     {"implementations", c.implementations},
                     {"homogeneous_cpu", r.homogeneous_cpu},
                     {"batches", r.batches},
                     {"columns",
                      {"codelet", "model", "implementation", "footprint", "seconds", "spread", "measurements"}}};
  std::string text = "{";
  for (const auto& [key, value] : head.items()) text += "\n  " + Json(key).dump() + ": " + value.dump() + ",";
  text += "\n  \"entries\": " + entries_text(r.entries) + "\n}\n";

  const fs::path next = path.string() + ".new";
  std::ofstream out(next, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  if (!out)
    throw InputError(next.string() + ": cannot be written: " + std::strerror(errno) +
                     "; name another folder with STARPU_PERF_MODEL_DIR");
  out.close();
  fs::rename(next, path);
}

std::string differences(const Circumstances& then, const Circumstances& now) {
  std::string text;
  const auto compare = [&](const std::string& what, const std::string& a, const std::string& b) {
    if (a != b) text += (text.empty() ? "" : ", ") + what + " (" + a + " then, " + b + " now)";
  };
  compare("the processor", then.cpu, now.cpu);
  compare("Prorata's version", then.version, now.version);
  compare("StarPU's version", then.starpu_version, now.starpu_version);
  for (const auto& [name, version] : now.libraries) {
    const auto before = then.libraries.find(name);
    compare(name, before == then.libraries.end() ? "none" : before->second, version);
  }
  for (const auto& [codelet, names] : now.implementations) {
    const auto before = then.implementations.find(codelet);
    if (before == then.implementations.end() || before->second != names)
      text += (text.empty() ? "" : ", ") + ("the implementations of " + codelet);
  }
  return text;
}

}  // namespace prorata
