// The device workers of StarPU, of every kind that is built in.
#pragma once

#include <starpu.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace prorata {

// Makes them ready, so that no task has to wait for a compiler: after starpu_init(). Throws what went wrong.
// `tf32`: CUDA devices may round the factors of their products, see allow_tf32() in cuda.h.
void init_device_workers(bool tf32);
// Lets go of what they hold: before starpu_shutdown().
void shutdown_device_workers();

// Before starpu_init(): the devices of a kind that StarPU finds, in its order, each by what tells it from all others of
// the machine.
std::vector<std::string> devices_of_machine(starpu_worker_archtype kind);

// Bytes that nobody uses in the memory of a worker's device, other programs included; none where its driver does not
// tell, as for OpenCL, or where it has no memory of its own.
std::optional<std::size_t> free_device_memory(int worker);

}  // namespace prorata
