#include "driver/speed/check.h"

#include "driver/report/log.h"
#include "driver/runtime.h"
#include "models/errors.h"

#include <cstdlib>
#include <string_view>

namespace prorata {

std::optional<CalibrationRecord> usable_record(const std::string& network) {
  try {
    return read_record(network);
  } catch (const InputError& e) {
    log_warning(e.what());
    return std::nullopt;
  }
}

bool calibrated_unlike(const std::string& network) {
  try {
    const auto record = read_record(network);
    return record && !record->homogeneous_cpu;
  } catch (const InputError&) {
    return false;  // said when it is read in earnest
  }
}

void warn_if_stale(const CalibrationRecord& record) {
  std::string changed = differences(record.circumstances, circumstances_now());
  if (record.host != model_host()) changed = "the machine (" + record.host + " then, " + model_host() + " now)";
  if (record.homogeneous_cpu != cpus_share_models())
    changed += std::string(changed.empty() ? "" : ", ") + "whether CPU workers share models";
  if (changed.empty()) return;
  log_warning("the calibration of " + record.network + " of " + record.written +
              " was made under other circumstances: " + changed + "; run 'prorata calibrate --model " + record.network +
              "' to measure anew");
}

void check_models(Network& network, std::int32_t batch) {
  const char* calibrate = std::getenv("STARPU_CALIBRATE");
  if (calibrate && std::string_view(calibrate) == "2") return;  // StarPU does not even read them
  const auto record = usable_record(network.spec().name);
  if (record) warn_if_stale(*record);
  auto batches = merge_batches(default_batches(), std::vector{batch});
  if (record) batches = merge_batches(std::move(batches), record->batches);
  TrainingShapes shapes(network, std::move(batches), Overlap::possible);
  for (const Implausible& found : find_implausible(shapes, read_entries(shapes), record ? &*record : nullptr)) {
    log_warning(sentence(shapes, found) + "; it is left out and measured anew");
    shapes.with_task(found.batch, found.position,
                     [&](starpu_task* task) { forget_entry(task, found.key.worker, found.key.implementation); });
  }
}

}  // namespace prorata
