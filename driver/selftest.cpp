// `prorata selftest`: every operation in every form, at every shape of the tests' table, on this machine, against a
// reference in double precision (codelets/selftest/). A line a device.
#include "codelets/selftest/implementations.h"
#include "codelets/selftest/operations.h"
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"

#include <cblas.h>
#include <omp.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

namespace prorata {
namespace {

using selftest::Implementation;

struct Tally {
  selftest::TestedDevice device;
  std::size_t implementations = 0, checks = 0;
  std::vector<std::string> wrong;
  std::string missing;
};

// What is wrong, where; empty where nothing is. Counts the checks.
std::string first_wrong(const selftest::Operation& op, const Implementation& implementation, std::size_t& checks) {
  using Grain = selftest::Random::Grain;
  const auto at = [](const selftest::Case& c, const std::string& wrong) {
    return wrong.empty() ? "" : " at " + c.name + ": " + wrong;
  };
  try {
    for (const Grain grain : {Grain::fine, Grain::coarse})
      for (std::size_t i = 0; i < op.cases.size(); ++i, ++checks) {
        const selftest::Case& c = op.cases[i];
        selftest::Random random(i, grain);
        const auto wrong = at(c, selftest::check(op, implementation, c.args.get(), op.inputs(c.args.get(), random)));
        if (!wrong.empty()) return wrong;
      }
    for (const selftest::Case& c : op.gradient_cases) {
      const auto wrong = at(c, selftest::check_gradient(op, implementation, c));
      if (!wrong.empty()) return wrong;
      ++checks;
    }
  } catch (const std::exception& e) {
    return std::string(": ") + e.what();
  }
  return "";
}

const std::map<std::string, const char*> kNames{
    {"cpu", "CPU"}, {"kernels", "device kernels, on the CPU"}, {"opencl", "OpenCL"}, {"cuda", "CUDA"}};

// "OpenCL device 0, NAME"
std::string title(const selftest::TestedDevice& device) {
  const std::string kind = kNames.at(device.kind);
  return device.name.empty() ? kind : kind + " device " + std::to_string(device.number) + ", " + device.name;
}

}  // namespace

int run_selftest(const SelftestOptions& o) {
  omp_set_num_threads(1);
  openblas_set_num_threads(1);
  std::map<std::pair<std::string, int>, Tally> tallies;  // by kind and number of the device
  for (const selftest::Operation& op : selftest::operations())
    for (const Implementation& i : selftest::implementations_of(*op.codelet, selftest::Devices::all)) {
      Tally& tally = tallies[{i.device.kind, i.device.number}];
      tally.device = i.device;
      tally.missing = i.missing;
      if (!i.missing.empty()) continue;
      ++tally.implementations;
      const std::string wrong = first_wrong(op, i, tally.checks);
      if (!wrong.empty())
        tally.wrong.push_back(title(i.device) + ": " + op.codelet->name() + " (" + i.name + ")" + wrong);
    }

  bool right = true;
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const auto& [unused, tally] : tallies) {
    right &= tally.wrong.empty();
    for (const std::string& wrong : tally.wrong) log_error(wrong);
    const std::string result = !tally.missing.empty() ? "not tested"
                               : tally.wrong.empty()  ? "right"
                                                      : std::to_string(tally.wrong.size()) + " implementations WRONG";
    devices.push_back({{"device", tally.device.kind},
                       {"number", tally.device.number},
                       {"name", tally.device.name},
                       {"result", tally.missing.empty() ? tally.wrong.empty() ? "right" : "wrong" : "not tested"},
                       {"implementations", tally.implementations},
                       {"checks", tally.checks},
                       {"wrong", tally.wrong},
                       {"reason", tally.missing}});
    if (o.common.json) continue;
    std::cout << title(tally.device) << ": " << result
              << (tally.missing.empty() ? ", " + std::to_string(tally.implementations) + " implementations, " +
                                              std::to_string(tally.checks) + " checks"
                                        : ", " + tally.missing)
              << std::endl;
  }
  if (o.common.json) std::cout << nlohmann::ordered_json{{"devices", devices}}.dump(2) << std::endl;
  return right ? exit_done : exit_failed;
}

}  // namespace prorata
