// `prorata devices`: the machine, its workers, which worker sits where, and how fast they are, as the models say.
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"
#include "driver/report/topology.h"
#include "driver/runtime.h"
#include "driver/speed/check.h"
#include "driver/speed/table.h"

#include <iostream>

namespace prorata {
namespace {

// Read from the files: nothing is measured, and StarPU writes nothing afterwards.
SpeedTable known_speeds(const DevicesOptions& o, const NetworkSpec& spec) {
  Network network(spec, 1);
  const auto record = usable_record(spec.name);
  if (record) warn_if_stale(*record);
  std::vector<std::int32_t> batches = o.batches.empty() ? record ? record->batches : default_batches() : o.batches;
  const std::int32_t shared = o.batches.empty() ? spec.defaults.batch : o.batches.back();
  const bool alone = starpu_worker_get_count() == 1;  // then no snapshots are taken
  const TrainingShapes shapes(network, merge_batches(std::move(batches), std::vector{shared}),
                              alone ? Overlap::never : Overlap::possible);
  const Entries entries = read_entries(shapes);
  for (const Implausible& found : find_implausible(shapes, entries, record ? &*record : nullptr))
    log_warning(sentence(shapes, found) + "; 'prorata calibrate --check' measures it anew");
  return speed_table(shapes, entries, record ? &*record : nullptr, shared);
}

nlohmann::ordered_json workers_json(const std::vector<WorkerPlace>& places, const SpeedTable* speeds) {
  const auto or_null = [](int number) {
    return number < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(number);
  };
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const WorkerPlace& p = places[i];
    workers.push_back({{"id", p.id},
                       {"name", p.name},
                       {"kind", p.kind},
                       {"memory_node", p.memory_node},
                       {"package", or_null(p.package)},
                       {"numa_node", or_null(p.numa_node)},
                       {"core", or_null(p.core)},
                       {"processing_unit", or_null(p.processing_unit)}});
    if (!speeds) continue;
    workers.back()["points"] = points_json(speeds->workers[i]);
    workers.back()["share"] = share_json(speeds->workers[i]);
  }
  return workers;
}

}  // namespace

int run_devices(const DevicesOptions& o) {
  std::optional<NetworkSpec> spec;
  if (!o.model.empty()) spec = read_network_spec(find_network(o.model));
  const Runtime runtime({.verbose = o.common.verbose, .slowdown = o.slowdown, .tf32 = o.tf32, .unlike_cpus = [&] {
                           return spec && calibrated_unlike(spec->name);
                         }});
  const auto places = worker_places();
  std::optional<SpeedTable> speeds;
  if (spec) speeds = known_speeds(o, *spec);
  if (o.common.json) {
    nlohmann::ordered_json result{{"workers", workers_json(places, speeds ? &*speeds : nullptr)},
                                  {"scheduler", runtime.scheduler()},
                                  {"starpu_version", starpu_version()},
                                  {"host", host_json()}};
    if (spec) result["model"] = spec->name;
    if (speeds) result["batch"] = speeds->batch;
    std::cout << result.dump(2) << std::endl;
  } else {
    std::cout << topology_text() << places.size() << " worker(s), scheduler " << runtime.scheduler() << ", StarPU "
              << starpu_version() << std::endl;
    if (speeds && !speeds->empty()) std::cout << "\n" << spec->name << "\n" << text(*speeds) << std::flush;
  }
  if (speeds && speeds->empty())
    log_info("nothing is known of the speed of " + spec->name + " on " + model_host() +
             "; 'prorata calibrate --model " + o.model + "' measures it");
  return exit_done;
}

}  // namespace prorata
