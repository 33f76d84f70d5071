// What a task costs the workers of a scheduling context, by StarPU's models and bus figures.
//
// Threads: call it without the policy's lock where possible; it asks the codelet's can_execute and takes locks of
// StarPU's. Only workers that StarPU would give the task to count: those of the context now, not put to sleep.
#pragma once

#include "scheduler/single_tasks.h"

#include <starpu.h>

#include <vector>

namespace prorata {

// What the models expect of `task` on `worker`, and the implementation that is best there. An implementation that
// has not been measured enough is preferred, so that it will be. NaN seconds: no implementation is known.
// `implementation` < 0: the worker cannot run the task.
struct TaskPrice {
  double seconds;
  int implementation;
};
TaskPrice price_task(starpu_task* task, unsigned sched_ctx, unsigned worker);

// For a task that belongs to no group. An entry for each of StarPU's workers. Seconds are NaN where no model knows,
// infinite where the worker cannot run it.
std::vector<TaskCost> task_costs(starpu_task* task, unsigned sched_ctx);

}  // namespace prorata
