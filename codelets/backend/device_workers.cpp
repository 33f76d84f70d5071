#include "codelets/backend/device_workers.h"

#include "codelets/codelet.h"

namespace prorata {

void init_device_workers([[maybe_unused]] bool tf32) {
#if defined(PRORATA_OPENCL)
  init_opencl_workers();
#endif
#if defined(PRORATA_CUDA)
  allow_tf32(tf32);
  init_cuda_workers();
#endif
  rethrow_kernel_error();
}

void shutdown_device_workers() {
#if defined(PRORATA_OPENCL)
  shutdown_opencl_workers();
#endif
#if defined(PRORATA_CUDA)
  shutdown_cuda_workers();
#endif
}

std::optional<std::size_t> free_device_memory([[maybe_unused]] int worker) {
#if defined(PRORATA_CUDA)
  std::size_t unused = 0, total = 0;
  if (starpu_worker_get_type(worker) == STARPU_CUDA_WORKER &&
      cudaSetDevice(starpu_worker_get_devid(worker)) == cudaSuccess && cudaMemGetInfo(&unused, &total) == cudaSuccess)
    return unused;
#endif
  return std::nullopt;
}

}  // namespace prorata
