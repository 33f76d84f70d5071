#include "driver/cluster/node_share.h"

#include "codelets/backend/device_workers.h"
#include "driver/report/topology.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

namespace prorata {
namespace {

struct Device {
  starpu_worker_archtype kind;
  const char *name, *count, *ids;  // StarPU's variables
};
constexpr Device kDevices[] = {{STARPU_CUDA_WORKER, "cuda", "STARPU_NCUDA", "STARPU_WORKERS_CUDAID"},
                               {STARPU_OPENCL_WORKER, "opencl", "STARPU_NOPENCL", "STARPU_WORKERS_OPENCLID"}};

// Each rank's own where no two have one in common and nobody has none; else equal parts of all.
template <class Unit>
std::vector<std::vector<Unit>> deal_equally(const std::vector<std::vector<Unit>>& allowed) {
  std::set<Unit> all;
  std::size_t count = 0;
  for (const auto& units : allowed) {
    all.insert(units.begin(), units.end());
    count += units.size();
  }
  if (count == all.size() && std::ranges::none_of(allowed, [](const auto& units) { return units.empty(); }))
    return allowed;
  const std::vector<Unit> units(all.begin(), all.end());
  const std::size_t ranks = allowed.size(), least = units.size() / ranks, more = units.size() % ranks;
  std::vector<std::vector<Unit>> shares;
  auto next = units.begin();
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto end = next + static_cast<std::ptrdiff_t>(least + (r < more ? 1 : 0));
    shares.emplace_back(std::exchange(next, end), end);
  }
  return shares;
}

// "3 1", of places in `all`.
std::string places(const std::vector<std::string>& wanted, const std::vector<std::string>& all) {
  std::string list;
  for (const std::string& one : wanted)
    list += (list.empty() ? "" : " ") + std::to_string(std::ranges::find(all, one) - all.begin());
  return list;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

// What a process says that is no text.
std::string in_hex(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes)
    for (const int shift : {4, 0}) digits += "0123456789abcdef"[(static_cast<unsigned char>(byte) >> shift) & 15];
  return digits;
}

}  // namespace

std::vector<std::vector<unsigned>> share_cores(const std::vector<std::vector<unsigned>>& allowed) {
  std::vector<std::vector<unsigned>> shares = deal_equally(allowed);
  const auto none = std::ranges::find_if(shares, [](const auto& cores) { return cores.empty(); });
  const auto enough = static_cast<std::size_t>(none - shares.begin());
  for (std::size_t r = enough; r < shares.size() && enough > 0; ++r) shares[r] = shares[r % enough];
  return shares;
}

std::vector<std::vector<std::string>> share_devices(const std::vector<std::vector<std::string>>& seen) {
  return deal_equally(seen);
}

void share_node(const Job& job) {
  if (job.alone()) return;
  ::setenv("STARPU_MPI_NOBIND", "1", 0);  // its thread has little to do, and no core is kept for it
  nlohmann::json said = {{"host", host_name()}, {"cores", allowed_cores()}};
  for (const Device& device : kDevices) {
    said[device.name] = nlohmann::json::array();
    for (const std::string& one : devices_of_machine(device.kind)) said[device.name].push_back(in_hex(one));
  }
  std::vector<nlohmann::json> here;
  std::size_t own = 0;
  for (int r = 0; const std::string& text : job.gather(said.dump())) {
    const nlohmann::json rank = nlohmann::json::parse(text);
    if (r++ == job.rank()) own = here.size();
    if (rank.at("host") == said.at("host")) here.push_back(rank);
  }
  if (here.size() == 1) return;

  std::size_t devices = 0;
  for (const Device& device : kDevices) {
    std::vector<std::vector<std::string>> seen;
    for (const nlohmann::json& rank : here) seen.push_back(rank.at(device.name));
    const std::vector<std::string> share = share_devices(seen)[own];
    if (seen[own].empty() || is_set(device.count) || is_set(device.ids)) continue;
    devices += share.size();
    ::setenv(device.count, std::to_string(share.size()).c_str(), 1);
    if (!share.empty()) ::setenv(device.ids, places(share, seen[own]).c_str(), 1);
  }

  std::vector<std::vector<unsigned>> allowed;
  for (const nlohmann::json& rank : here) allowed.push_back(rank.at("cores"));
  const std::vector<unsigned> cores = share_cores(allowed)[own];
  std::string list;
  for (const unsigned core : cores) list += (list.empty() ? "" : " ") + std::to_string(core);
  ::setenv("STARPU_WORKERS_CPUID", list.c_str(), 0);
  if (!is_set("STARPU_NCPUS"))
    ::setenv("STARPU_NCPU", std::to_string(cores.size() - std::min(cores.size(), devices)).c_str(), 0);
}

}  // namespace prorata
