// Ranks that make one run are to be alike.
#pragma once

#include "driver/cluster/job.h"
#include "driver/options.h"

#include <nlohmann/json.hpp>
#include <string>

namespace prorata {

// On all ranks at once. InputError on all where on some rank the program is another, or an option that the run's result
// or course depends on (`base`: resumption.h's beginnings()): which rank, what, both values.
void must_agree(const Job& job, const nlohmann::json& base, const TrainOptions& options, int epochs,
                const std::string& network_text);

}  // namespace prorata
