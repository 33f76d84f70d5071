// The ranks of one node share its cores and devices.
#pragma once

#include "driver/cluster/job.h"

#include <string>
#include <vector>

namespace prorata {

// `allowed`: by rank of the node, the cores that it may run on, each by the number of one of its processing units.
// Returns those that each is to use. Where the launcher has given each rank cores of its own, these; else all cores
// that some rank may use are dealt out, in equal parts. Ranks beyond the number of cores share them in turn.
std::vector<std::vector<unsigned>> share_cores(const std::vector<std::vector<unsigned>>& allowed);

// The same of devices, each by a name. Ranks beyond their number have none.
std::vector<std::vector<std::string>> share_devices(const std::vector<std::vector<std::string>>& seen);

// On all ranks at once, before StarPU starts. Where other ranks are on this rank's node: sets STARPU_NCPU and
// STARPU_WORKERS_CPUID to its share of the cores, less one for each device, and STARPU_NCUDA, STARPU_WORKERS_CUDAID,
// STARPU_NOPENCL and STARPU_WORKERS_OPENCLID to its share of the devices. What the user has set stays.
void share_node(const Job& job);

}  // namespace prorata
