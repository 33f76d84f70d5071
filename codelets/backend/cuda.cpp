#include "codelets/backend/cuda.h"

#include "codelets/backend/kernel_error.h"
#if defined(PRORATA_CUDNN)
#include "codelets/backend/cudnn.h"
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>
#include <string>

namespace prorata {
namespace {

std::atomic<bool> tf32{false};

constexpr const char* kOutOfMemory = "; use a smaller --batch";
constexpr const char* kOtherGpu = "; built for other GPUs: configure with CMAKE_CUDA_ARCHITECTURES for this one";

// `which`: the name of what was tried, where there are several.
void check(cudaError_t status, const char* what, const char* which = "") {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // or StarPU would take it for an error of its own, and abort
  const char* hint = status == cudaErrorMemoryAllocation         ? kOutOfMemory
                     : status == cudaErrorNoKernelImageForDevice ? kOtherGpu
                                                                 : "";
  throw std::runtime_error(std::string("CUDA: ") + what + which + " failed: " + cudaGetErrorString(status) + hint);
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  throw std::runtime_error(std::string("CUDA: ") + what + " (cuBLAS) failed: " + cublasGetStatusString(status) +
                           (status == CUBLAS_STATUS_ALLOC_FAILED ? kOutOfMemory : ""));
}

cublasContext* start_cublas() {
  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle), "starting");
  return handle;
}

int dimension(std::int64_t n) { return as_int(static_cast<std::size_t>(n)); }

}  // namespace

void allow_tf32(bool allow) { tf32 = allow; }

void* Cuda::Room::at_least(cudaStream_t stream, std::size_t bytes) {
  if (bytes <= bytes_) return memory_;
  release(stream);
  void* larger = nullptr;
  check(cudaMallocAsync(&larger, bytes, stream), ("allocating " + std::to_string(bytes) + " bytes").c_str());
  memory_ = larger;
  bytes_ = bytes;
  return memory_;
}

void Cuda::Room::release(cudaStream_t stream) {
  if (memory_) cudaFreeAsync(memory_, stream);
  memory_ = nullptr;
  bytes_ = 0;
}

Cuda::Cuda(cudaStream_t stream) : stream_(stream), blas_(start_cublas(), cublasDestroy) {
  check(cublasSetStream(blas_.get(), stream_), "choosing a stream");
  // The default keeps all bits of single precision, whatever units it uses.
  check(cublasSetMathMode(blas_.get(), tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH),
        "choosing a precision");
#if defined(PRORATA_CUDNN)
  cudnn_ = std::make_unique<Cudnn>(stream_, tf32);
#endif
}

Cuda::~Cuda() {
  workspace_.release(stream_);
  uploads_.release(stream_);
  cudaStreamSynchronize(stream_);  // StarPU wants it idle after shutdown_cuda_workers()
}

void Cuda::enqueue(const void* kernel, const char* name, std::int32_t count, void** args) {
  constexpr std::int32_t kBlock = 256, kMostBlocks = 4096;  // more elements than that go round
  const auto blocks = static_cast<unsigned>(std::clamp((count + kBlock - 1) / kBlock, 1, kMostBlocks));
  check(cudaLaunchKernel(kernel, dim3(blocks), dim3(kBlock), args, 0, stream_), "the kernel ", name);
}

void Cuda::gemm(const GemmShape& s, const float* a, std::size_t a_at, const float* b, std::size_t b_at, float beta,
                float* c, std::size_t c_at) {
  const auto op = [](Transpose t) { return t == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const float one = 1.0f;
  // cuBLAS reads matrices by column, ours are transposed to it: c' = op(b)' op(a)'.
  check(cublasSgemm(blas_.get(), op(s.tb), op(s.ta), dimension(s.n), dimension(s.m), dimension(s.k), &one, b + b_at,
                    dimension(s.row_of_b()), a + a_at, dimension(s.row_of_a()), &beta, c + c_at, dimension(s.n)),
        "a matrix product");
}

const std::uint32_t* Cuda::upload(const std::uint32_t* numbers, std::size_t count) {
  const std::size_t bytes = count * sizeof(std::uint32_t);
  void* memory = uploads_.at_least(stream_, bytes);
  check(cudaMemcpyAsync(memory, numbers, bytes, cudaMemcpyHostToDevice, stream_), "a copy to the device");
  return static_cast<const std::uint32_t*>(memory);
}

void Cuda::finish() { check(cudaStreamSynchronize(stream_), "the work of a task"); }

namespace {

// By StarPU's worker, each touched by that worker only.
std::array<std::unique_ptr<Cuda>, STARPU_NMAXWORKERS> devices;

Cuda& device_of_worker() {
  std::unique_ptr<Cuda>& device = devices[static_cast<std::size_t>(starpu_worker_get_id_check())];
  if (!device) device = std::make_unique<Cuda>(starpu_cuda_get_local_stream());
  return *device;
}

}  // namespace

void Cuda::run_on_worker(void (*run)(Cuda&, void* buffers[], const void* args), void* buffers[], void* args) {
  keep_kernel_error([&] { run(device_of_worker(), buffers, args); });
}

void init_cuda_workers() {
  starpu_execute_on_each_worker(
      [](void*) {
        keep_kernel_error([] { device_of_worker().finish(); });  // StarPU wants the stream idle
      },
      nullptr, STARPU_CUDA);
}

void shutdown_cuda_workers() {
  starpu_execute_on_each_worker([](void*) { devices[static_cast<std::size_t>(starpu_worker_get_id_check())].reset(); },
                                nullptr, STARPU_CUDA);
}

}  // namespace prorata
