// A look at the performance models before they are relied on.
#pragma once

#include "driver/speed/training_models.h"

#include <optional>
#include <string>

namespace prorata {

// The record of a network's calibration; one that cannot be read is none, and a warning says so.
std::optional<CalibrationRecord> usable_record(const std::string& network);

// Whether the network was calibrated with a model for each CPU worker: to be asked before StarPU runs.
bool calibrated_unlike(const std::string& network);

// One warning where the calibration was made under other circumstances than today's.
void warn_if_stale(const CalibrationRecord& record);

// Before training: warns of a stale calibration and of each entry that cannot be true, and takes the latter out, so
// that StarPU measures them anew.
void check_models(Network& network, std::int32_t batch);

}  // namespace prorata
