#include "codelets/backend/device_workers.h"

#include "codelets/codelet.h"

#include <array>
#include <cstdlib>

namespace prorata {
namespace {

#if defined(PRORATA_CUDA)
std::vector<std::string> cuda_devices() {
  std::vector<std::string> devices;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return devices;
  for (int d = 0; d < count; ++d) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, d) != cudaSuccess) return {};
    devices.emplace_back(properties.uuid.bytes, sizeof(properties.uuid.bytes));
  }
  return devices;
}
#endif

#if defined(PRORATA_OPENCL)
bool flag(const char* name) {
  const char* value = std::getenv(name);
  return value && std::atoi(value) > 0;
}

// All processes see the same ones.
std::vector<std::string> opencl_devices() {
  const cl_device_type kinds =
      flag("STARPU_OPENCL_ONLY_ON_CPUS")
          ? CL_DEVICE_TYPE_CPU
          : CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR | (flag("STARPU_OPENCL_ON_CPUS") ? CL_DEVICE_TYPE_CPU : 0);
  std::array<cl_platform_id, 16> platforms{};
  cl_uint count = 0;
  if (clGetPlatformIDs(platforms.size(), platforms.data(), &count) != CL_SUCCESS) return {};
  std::vector<std::string> devices;
  for (cl_uint p = 0; p < count && p < platforms.size(); ++p)
    if (cl_uint found = 0; clGetDeviceIDs(platforms[p], kinds, 0, nullptr, &found) == CL_SUCCESS)
      for (cl_uint d = 0; d < found; ++d) devices.push_back(std::to_string(p) + "." + std::to_string(d));
  return devices;
}
#endif

}  // namespace

std::vector<std::string> devices_of_machine([[maybe_unused]] starpu_worker_archtype kind) {
#if defined(PRORATA_CUDA)
  if (kind == STARPU_CUDA_WORKER) return cuda_devices();
#endif
#if defined(PRORATA_OPENCL)
  if (kind == STARPU_OPENCL_WORKER) return opencl_devices();
#endif
  return {};
}

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
