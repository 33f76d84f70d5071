// How StarPU finds the policy in libstarpu_prorata.so.
//
// StarPU 1.4 loads the library that STARPU_SCHED_LIB names and asks it by the names below. StarPU 1.3 has no such way,
// but hands out its table of policies itself, not a copy: once the library is loaded, linked or by LD_PRELOAD, the
// table has ours in the place of `graph_test`, which is there to test StarPU's task graphs. So STARPU_SCHED=prorata
// chooses it in any program, and STARPU_SCHED=help lists it.
//
// StarPU 1.4 closes the library whenever it looks for another policy by name, though ours may be at work: it is linked
// such that it stays (-z nodelete).
#include "scheduler/prorata.h"
#include "scheduler/starpu_compat.h"

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

#ifndef PRORATA_STARPU_LOADS_POLICIES
namespace {

// The table is constant data of a library that this one is linked to, so it is there before this runs.
[[gnu::constructor]] void replace_graph_test() {
  for (starpu_sched_policy** p = starpu_sched_get_predefined_policies(); *p; ++p)
    if ((*p)->policy_name && std::strcmp((*p)->policy_name, "graph_test") == 0) *p = &starpu_prorata_policy;
}

}  // namespace
#endif
