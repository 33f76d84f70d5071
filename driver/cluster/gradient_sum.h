// The gradients' sum over all ranks, by StarPU-MPI: synchronous training.
//
// Each layer's sums go to its owner, which adds them up in the order of ranks and sends the result back: 2 (N - 1) / N
// of the parameters' size for each of N ranks, which is the least that an all-reduce needs. All have the same bits
// then.
#pragma once

#include "driver/cluster/job.h"
#include "models/network.h"

#include <starpu.h>

#include <cstddef>
#include <functional>

namespace prorata {

// Called for the network's blocks of parameters in turn, from 0, and then once more for one float beside them: submits
// what makes `sum` of this rank the sum over all ranks, as tasks and detached requests. All ranks are to call it as
// often. The tasks are ordered by the handle's sequential consistency.
using GradientSum = std::function<void(std::size_t block, starpu_data_handle_t sum)>;

// There are several ranks. StarPU must be running until it is gone, and nothing be in flight then.
GradientSum make_gradient_sum(const Job& job, Network& network);

}  // namespace prorata
