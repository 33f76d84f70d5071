// From the layers of a network's file to the operations that are done.
#pragma once

#include "models/layers.h"
#include "models/specification.h"

#include <memory>
#include <vector>

namespace prorata {

// In the order of forward, which is the file's; the last one makes the network's output.
std::vector<std::unique_ptr<const Operation>> make_operations(const NetworkSpec& spec);

}  // namespace prorata
