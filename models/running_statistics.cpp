#include "models/running_statistics.h"

#include "codelets/backend/happens_before.h"
#include "codelets/batch_norm.h"

namespace prorata {

void plan_update(Plan& plan, RunningStatistics& statistics, starpu_data_handle_t of_minibatch) {
  plan.add_at_home(update_running_statistics, {statistics.handle.get(), of_minibatch},
                   RunningStatisticsArgs{{static_cast<std::int32_t>(statistics.values.count / 2)},
                                         statistics.momentum});
}

void on_statistics_update(void* running_statistics) {
  const HandleHeld held(running_statistics);
  ++static_cast<RunningStatistics*>(running_statistics)->updates;
}

}  // namespace prorata
