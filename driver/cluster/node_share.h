// The ranks of one node share its cores.
#pragma once

#include "driver/cluster/job.h"

#include <vector>

namespace prorata {

// `allowed`: by rank of the node, the cores that it may run on, each by the number of one of its processing units.
// Returns those that each is to use. Where the launcher has given each rank cores of its own, these; else all cores
// that some rank may use are dealt out, in equal parts. Ranks beyond the number of cores share them in turn.
std::vector<std::vector<unsigned>> share_cores(const std::vector<std::vector<unsigned>>& allowed);

// On all ranks at once, before StarPU starts. Where other ranks are on this rank's node: sets STARPU_NCPU and
// STARPU_WORKERS_CPUID, where the user has not, to its share of the cores.
void share_node(const Job& job);

}  // namespace prorata
