/* Where StarPU 1.4 differs from 1.3 for us: each difference has a name here, and nothing else asks for the version.
 *
 * It stands with the scheduler, because codelets and all above use only what both versions have, and the scheduler may
 * not look up to them. Plain C: programs in C and the build's own checks read it as well.
 */
#pragma once

#include <starpu_scheduler.h>

#if STARPU_MAJOR_VERSION > 1 || STARPU_MINOR_VERSION >= 4

/* StarPU loads policies from the library that STARPU_SCHED_LIB names. Undefined where it does not. */
#define PRORATA_STARPU_LOADS_POLICIES

/* Said of a policy that sends data ahead itself. Else StarPU does so for tasks that only one kind of worker can run,
 * and aborts when the policy asks for the same again. 1.3 leaves it to policies. */
static inline void prorata_set_prefetches(struct starpu_sched_policy* policy) { policy->prefetches = 1; }

#else

static inline void prorata_set_prefetches(struct starpu_sched_policy* policy) { (void)policy; }

#endif
