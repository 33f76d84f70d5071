#include "driver/cluster/node_share.h"

#include "driver/report/topology.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

namespace prorata {

std::vector<std::vector<unsigned>> share_cores(const std::vector<std::vector<unsigned>>& allowed) {
  std::set<unsigned> all;
  std::size_t count = 0;
  for (const auto& cores : allowed) {
    all.insert(cores.begin(), cores.end());
    count += cores.size();
  }
  if (count == all.size() && std::ranges::none_of(allowed, [](const auto& cores) { return cores.empty(); }))
    return allowed;
  const std::vector<unsigned> cores(all.begin(), all.end());
  const std::size_t ranks = allowed.size();
  std::vector<std::vector<unsigned>> shares;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (cores.size() < ranks)
      shares.push_back({cores[r % cores.size()]});
    else
      shares.emplace_back(cores.begin() + static_cast<std::ptrdiff_t>(r * cores.size() / ranks),
                          cores.begin() + static_cast<std::ptrdiff_t>((r + 1) * cores.size() / ranks));
  }
  return shares;
}

void share_node(const Job& job) {
  if (job.alone()) return;
  ::setenv("STARPU_MPI_NOBIND", "1", 0);  // its thread has little to do, and no core is kept for it
  const std::string host = host_name();
  const std::vector<std::string> all = job.gather(nlohmann::json{{"host", host}, {"cores", allowed_cores()}}.dump());
  std::vector<std::vector<unsigned>> allowed;
  std::size_t own = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const nlohmann::json rank = nlohmann::json::parse(all[r]);
    if (rank.at("host") != host) continue;
    if (r == static_cast<std::size_t>(job.rank())) own = allowed.size();
    allowed.push_back(rank.at("cores").get<std::vector<unsigned>>());
  }
  if (allowed.size() == 1) return;
  const std::vector<unsigned> cores = share_cores(allowed)[own];
  std::string list;
  for (const unsigned core : cores) list += (list.empty() ? "" : " ") + std::to_string(core);
  ::setenv("STARPU_WORKERS_CPUID", list.c_str(), 0);
  if (!std::getenv("STARPU_NCPUS")) ::setenv("STARPU_NCPU", std::to_string(cores.size()).c_str(), 0);
}

}  // namespace prorata
