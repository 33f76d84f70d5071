#include "codelets/backend/pinned_memory.h"

#if defined(PRORATA_CUDA)
#include <cuda_runtime.h>
#endif
#include <starpu.h>

namespace prorata {

PinnedMemory::PinnedMemory([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(PRORATA_CUDA)
  const int worker = starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0);
  if (worker < 0 || bytes == 0) return;
  cudaSetDevice(starpu_worker_get_devid(worker));  // or a device that StarPU does not use would lose memory to it
  if (starpu_memory_pin(memory, bytes) == 0) {
    memory_ = memory;
    bytes_ = bytes;
  } else {
    cudaGetLastError();  // or StarPU would take it for an error of its own, and abort
  }
#endif
}

PinnedMemory::~PinnedMemory() {
  if (memory_) starpu_memory_unpin(memory_, bytes_);
}

}  // namespace prorata
