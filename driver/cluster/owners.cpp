#include "driver/cluster/owners.h"

#include <algorithm>
#include <numeric>

namespace prorata {

std::vector<int> share_out(const std::vector<std::size_t>& bytes, int ranks) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::size_t> load(static_cast<std::size_t>(ranks), 0);
  std::vector<int> owners(bytes.size());
  for (std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += bytes[i];
    owners[i] = static_cast<int>(least - load.begin());
  }
  return owners;
}

std::vector<OwnedBlock> share_out(Network& network, int ranks) {
  std::vector<OwnedBlock> blocks;
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (ParameterBlock* parameters = network.parameters(i)) {
      bytes.push_back(parameters->values.count * sizeof(float));
      blocks.push_back({blocks.size(), parameters, 0});
    }
  const std::vector<int> owners = share_out(bytes, ranks);
  for (OwnedBlock& block : blocks) block.owner = owners[block.number];
  return blocks;
}

}  // namespace prorata
