// Which rank owns which layer's parameters.
#pragma once

#include "models/network.h"

#include <vector>

namespace prorata {

// For each of `bytes`, the rank of `ranks` that owns it: so that the largest sum of a rank is small (the largest first,
// each to whoever has least).
std::vector<int> share_out(const std::vector<std::size_t>& bytes, int ranks);

struct OwnedBlock {
  std::size_t number;  // the same on all ranks
  ParameterBlock* parameters;
  int owner;
};

// The network's blocks of parameters.
std::vector<OwnedBlock> share_out(Network& network, int ranks);

}  // namespace prorata
