#include "scheduler/task_costs.h"

#include <starpu_scheduler.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace prorata {
namespace {

// Two workers for which every model says the same, as CPU workers are by default.
bool alike(const starpu_perfmodel_arch& a, const starpu_perfmodel_arch& b) {
  return std::equal(a.devices, a.devices + a.ndevices, b.devices, b.devices + b.ndevices,
                    [](const starpu_perfmodel_device& x, const starpu_perfmodel_device& y) {
                      return x.type == y.type && x.devid == y.devid && x.ncores == y.ncores;
                    });
}

double transfer_seconds(starpu_task* task, unsigned worker) {
  if (starpu_memory_nodes_get_count() == 1) return 0;
  const double seconds = starpu_task_expected_data_transfer_time_for(task, worker) * 1e-6;
  return std::isnan(seconds) ? 0 : seconds;
}

}  // namespace

TaskPrice price_task(starpu_task* task, unsigned sched_ctx, unsigned worker) {
  unsigned mask = 0;
  if (!starpu_worker_can_execute_task_impl(worker, task, &mask)) return {__builtin_nan(""), -1};
  starpu_perfmodel_arch* arch = starpu_worker_get_perf_archtype(static_cast<int>(worker), sched_ctx);
  TaskPrice best{__builtin_nan(""), -1};
  int unknown = -1;
  for (unsigned i = 0; mask >> i; ++i) {
    if (!(mask >> i & 1)) continue;
    const double seconds = starpu_task_expected_length(task, arch, i) * 1e-6;
    if (std::isnan(seconds)) {
      if (unknown < 0) unknown = static_cast<int>(i);
    } else if (best.implementation < 0 || seconds < best.seconds) {
      best = {seconds, static_cast<int>(i)};
    }
  }
  if (unknown >= 0) best.implementation = unknown;
  return best;
}

std::vector<TaskCost> task_costs(starpu_task* task, unsigned sched_ctx) {
  std::vector<TaskCost> costs(starpu_worker_get_count(), {std::numeric_limits<double>::infinity(), 0});
  const bool any_may = !task->cl->can_execute && task->workerids_len == 0;
  int last = -1;
  starpu_worker_collection* workers = starpu_sched_ctx_get_worker_collection(sched_ctx);
  starpu_sched_ctx_iterator it;
  workers->init_iterator_for_parallel_tasks(workers, &it, task);
  while (workers->has_next(workers, &it)) {
    const auto worker = static_cast<unsigned>(workers->get_next(workers, &it));
    if (worker >= costs.size()) continue;  // combined workers are none of ours
    if (any_may && last >= 0 &&
        starpu_worker_get_memory_node(worker) == starpu_worker_get_memory_node(static_cast<unsigned>(last)) &&
        alike(*starpu_worker_get_perf_archtype(static_cast<int>(worker), sched_ctx),
              *starpu_worker_get_perf_archtype(last, sched_ctx)) &&
        starpu_worker_can_execute_task_first_impl(worker, task, nullptr)) {
      costs[worker] = costs[static_cast<std::size_t>(last)];
      continue;
    }
    const TaskPrice price = price_task(task, sched_ctx, worker);
    if (price.implementation < 0) continue;
    // 0: there is no model.
    costs[worker] = {price.seconds > 0 ? price.seconds : __builtin_nan(""), transfer_seconds(task, worker)};
    last = static_cast<int>(worker);
  }
  return costs;
}

}  // namespace prorata
