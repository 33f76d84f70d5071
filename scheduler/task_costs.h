// What each worker of a scheduling context needs for a task that belongs to no group: StarPU's models and bus figures.
//
// Threads: call it without the policy's lock where possible; it asks the codelet's can_execute and takes locks of
// StarPU's. Only workers that StarPU would give the task to count: those of the context now, not put to sleep.
#pragma once

#include "scheduler/single_tasks.h"

#include <starpu.h>

#include <vector>

namespace prorata {

// An entry for each of StarPU's workers. Seconds are NaN where no model knows, infinite where the worker cannot run it.
std::vector<TaskCost> task_costs(starpu_task* task, unsigned sched_ctx);

}  // namespace prorata
