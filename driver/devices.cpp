// `prorata devices`: the machine, its workers, and which worker sits where.
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/topology.h"
#include "driver/runtime.h"

#include <iostream>

namespace prorata {

int run_devices(const DevicesOptions& o) {
  const Runtime runtime({.verbose = o.common.verbose, .slowdown = {}});
  const auto places = worker_places();
  if (!o.common.json) {
    std::cout << topology_text() << places.size() << " worker(s), scheduler " << runtime.scheduler() << ", StarPU "
              << starpu_version() << std::endl;
    return exit_done;
  }
  const auto or_null = [](int number) {
    return number < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(number);
  };
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (const WorkerPlace& p : places)
    workers.push_back({{"id", p.id},
                       {"name", p.name},
                       {"kind", p.kind},
                       {"memory_node", p.memory_node},
                       {"package", or_null(p.package)},
                       {"numa_node", or_null(p.numa_node)},
                       {"core", or_null(p.core)},
                       {"processing_unit", or_null(p.processing_unit)}});
  std::cout << nlohmann::ordered_json{{"workers", std::move(workers)},
                                      {"scheduler", runtime.scheduler()},
                                      {"starpu_version", starpu_version()},
                                      {"host", host_json()}}
                   .dump(2)
            << std::endl;
  return exit_done;
}

}  // namespace prorata
