// What the policy `prorata` has to tell the program around it, beyond the C interface of scheduler/prorata.h.
#pragma once

#include "scheduler/ledger.h"
#include "scheduler/prorata.h"

#include <vector>

namespace prorata {

// The rounds of the current phase, with shares in the order of `workers`. Empty where another policy is in force.
struct PolicyReport {
  std::vector<int> workers;  // StarPU's worker ids
  std::vector<Round> rounds;
};
PolicyReport policy_report(unsigned sched_ctx);

}  // namespace prorata
