// Entry points by which StarPU finds the policy in libstarpu_prorata.so.
//
// StarPU 1.4 loads the library that STARPU_SCHED_LIB names and asks it by these names. StarPU 1.3 has no such way:
// there a program takes `starpu_prorata_policy` into starpu_conf::sched_policy.
#include "scheduler/prorata.h"

#include <starpu_scheduler.h>

#include <cstring>

extern "C" {

starpu_sched_policy* starpu_get_sched_lib_policy(const char* name) {
  return std::strcmp(name, starpu_prorata_policy.policy_name) == 0 ? &starpu_prorata_policy : nullptr;
}

starpu_sched_policy** starpu_get_sched_lib_policies() {
  static starpu_sched_policy* policies[] = {&starpu_prorata_policy, nullptr};
  return policies;
}
}
