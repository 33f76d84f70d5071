// The device workers of StarPU, of every kind that is built in.
#pragma once

namespace prorata {

// Makes them ready, so that no task has to wait for a compiler: after starpu_init(). Throws what went wrong.
void init_device_workers();
// Lets go of what they hold: before starpu_shutdown().
void shutdown_device_workers();

}  // namespace prorata
