// What travels between the memories of the machine, as StarPU counts it.
#pragma once

#include <cstdint>
#include <vector>

namespace prorata {

// From one memory node to another.
struct Traffic {
  int from, to;
  std::uint64_t bytes, transfers;
};

// What has travelled since the last call, or since StarPU was started: one entry for each pair of nodes that StarPU
// copies between, none where there is main memory only. StarPU must be running, and no task in flight.
std::vector<Traffic> take_traffic();

// Adds the counts of `more` to those of `sum`, pair by pair.
void add_traffic(std::vector<Traffic>& sum, const std::vector<Traffic>& more);

}  // namespace prorata
