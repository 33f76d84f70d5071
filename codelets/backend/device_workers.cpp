#include "codelets/backend/device_workers.h"

#include "codelets/codelet.h"

namespace prorata {

void init_device_workers() {
#if defined(PRORATA_OPENCL)
  init_opencl_workers();
#endif
#if defined(PRORATA_CUDA)
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

}  // namespace prorata
