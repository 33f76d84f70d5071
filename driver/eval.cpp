// `prorata eval`: accuracy and loss of a checkpoint on a data set's test split.
#include "driver/device_check.h"
#include "driver/evaluation.h"
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"
#include "driver/runtime.h"
#include "driver/stop_signal.h"
#include "models/errors.h"
#include "models/parameter_file.h"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

namespace prorata {
namespace {

namespace fs = std::filesystem;

// A run directory stands for the parameters in it.
fs::path parameter_file(const fs::path& checkpoint) {
  if (checkpoint.empty()) throw InputError("eval needs a checkpoint: a parameter file or a run directory");
  if (!fs::is_directory(checkpoint)) return checkpoint;
  for (const fs::path& inside : {checkpoint / "checkpoint" / "model.safetensors", checkpoint / "model.safetensors"})
    if (fs::exists(inside)) return inside;
  throw InputError(checkpoint.string() + ": has no checkpoint/model.safetensors; name a run directory or the file");
}

}  // namespace

int run_eval(const EvalOptions& o) {
  const fs::path file = parameter_file(o.checkpoint);
  const NetworkSpec spec = read_network_spec(find_network(o.data.model));
  const Dataset data = load_dataset(o.data.dataset, o.data.data, spec, 1, o.data.preparation);
  const Runtime runtime({.verbose = o.common.verbose, .slowdown = {}, .tf32 = o.tf32});
  const StopSignal stop;
  Network network(spec, 0);
  read_parameters(network, file);
  leave_out_devices_without_room(network, data, o.batch, {.normalize = o.data.preparation.normalize});
  Trainer trainer(network, {.batch = o.batch,
                            .replicas = default_replicas(),
                            .preprocessing = {.normalize = o.data.preparation.normalize}});
  const Score score = evaluate(trainer, data.test, [] { return StopSignal::caught() != 0; });
  if (!score.complete) {
    log_info("stopped by a signal after " + std::to_string(score.samples) + " of " + std::to_string(data.test.size()) +
             " samples");
    return 128 + StopSignal::caught();
  }
  if (o.common.json)
    std::cout << nlohmann::ordered_json{{"model", spec.name},
                                        {"dataset", data.name},
                                        {"checkpoint", file.string()},
                                        {"samples", score.samples},
                                        {"test_loss", std::isfinite(score.loss) ? nlohmann::json(score.loss) : nullptr},
                                        {"test_accuracy", score.accuracy},
                                        {"tf32", runtime.tf32()}}
                     .dump(2)
              << std::endl;
  else
    std::printf("%s on %s: test accuracy %.4f, test loss %.4f (%zu samples)\n", spec.name.c_str(), data.name.c_str(),
                score.accuracy, score.loss, data.test.size());
  return exit_done;
}

}  // namespace prorata
