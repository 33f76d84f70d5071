// `prorata eval`: accuracy and loss of a checkpoint on a data set's test split.
#include "driver/checkpoint.h"
#include "driver/device_check.h"
#include "driver/evaluation.h"
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"
#include "driver/report/topology.h"
#include "driver/runtime.h"
#include "driver/stop_signal.h"
#include "models/errors.h"
#include "models/parameter_file.h"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

namespace prorata {
namespace {

nlohmann::ordered_json workers_json(const Score& score) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const WorkerPlace& place : worker_places()) {
    const Score::Worker& w = score.workers.at(static_cast<std::size_t>(place.id));
    list.push_back({{"id", place.id},
                    {"name", place.name},
                    {"kind", place.kind},
                    {"minibatches", w.minibatches},
                    {"samples", w.samples},
                    {"share", static_cast<double>(w.samples) / static_cast<double>(score.samples)}});
  }
  return list;
}

}  // namespace

int run_eval(const EvalOptions& o) {
  if (o.checkpoint.empty()) throw InputError("eval needs a checkpoint: a parameter file or a run directory");
  const std::filesystem::path file = find_parameters(o.checkpoint);
  const auto [spec, data] =
      load_network_and_data(find_network_of(file, o.data.model), o.data.dataset, o.data.data, 1, o.data.preparation);
  const Runtime runtime({.verbose = o.common.verbose, .slowdown = {}, .tf32 = o.tf32});
  const StopSignal stop;
  Network network(spec, 0);
  read_parameters(network, file);
  leave_out_devices_without_room(network, data, o.batch, {.normalize = o.data.preparation.normalize});
  Trainer trainer(network, {.batch = o.batch,
                            .replicas = default_replicas(),
                            .preprocessing = {.normalize = o.data.preparation.normalize}});
  const double start = starpu_timing_now();
  const Score score = evaluate(trainer, data.test, [] { return StopSignal::caught() != 0; });
  const double seconds = (starpu_timing_now() - start) * 1e-6;
  if (!score.complete) {
    log_info("stopped by a signal after " + std::to_string(score.samples) + " of " + std::to_string(data.test.size()) +
             " samples");
    return 128 + StopSignal::caught();
  }
  if (o.common.json)
    std::cout << nlohmann::ordered_json{{"model", spec.name},
                                        {"dataset", data.name},
                                        {"checkpoint", file.string()},
                                        {"batch", o.batch},
                                        {"samples", score.samples},
                                        {"test_loss", std::isfinite(score.loss) ? nlohmann::json(score.loss) : nullptr},
                                        {"test_accuracy", score.accuracy},
                                        {"wall_seconds", seconds},
                                        {"samples_per_second", static_cast<double>(score.samples) / seconds},
                                        {"scheduler", runtime.scheduler()},
                                        {"tf32", runtime.tf32()},
                                        {"workers", workers_json(score)}}
                     .dump(2)
              << std::endl;
  else
    std::printf("%s on %s: test accuracy %.4f, test loss %.4f (%zu samples)\n", spec.name.c_str(), data.name.c_str(),
                score.accuracy, score.loss, data.test.size());
  return exit_done;
}

}  // namespace prorata
