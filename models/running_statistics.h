// The running statistics of batch normalisations: what evaluation normalises by.
//
// They are shared by all workers as the parameters are, and saved with them, but their rule is their own: there is no
// gradient and no optimizer. In training each mini-batch normalises by its own statistics, so nobody reads the shared
// ones, there is no snapshot of them, and none is stale. They are moved towards each mini-batch's,
//     running = (1 - momentum) * running + momentum * (mean, unbiased variance),
// once a mini-batch, however many samples it has, in the order in which mini-batches finish; in steps (bsp), in that of
// the step's mini-batches.
#pragma once

#include "models/layers.h"
#include "models/network.h"

namespace prorata {

// Appends the task that moves them to the plan; it is to be run at home. `of_minibatch`: extra data of its operation.
void plan_update(Plan& plan, RunningStatistics& statistics, starpu_data_handle_t of_minibatch);

// When a worker takes such a task of `running_statistics`, which then holds them: counts it.
void on_statistics_update(void* running_statistics);

}  // namespace prorata
