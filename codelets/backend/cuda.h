// A CUDA device as the operations see it: see codelets/device.h.
//
// All work of a task goes into one stream, StarPU's of the worker, so nothing is waited for and the workspace serves
// one operation after the other. Memory is allocated only where more is asked for than ever before.
//
// Errors: std::runtime_error, with what was tried and what CUDA said. What fails on the device itself may show in a
// later call only.
// Threads: a device belongs to one thread at a time, which must have its GPU as the current one; a worker's to the
// worker.
#pragma once

#include "codelets/backend/gemm.h"
#include "codelets/backend/kernel.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <starpu.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace prorata {

class Cudnn;

class Cuda {
 public:
  template <class T>
  using Array = T*;

  // On the current GPU. The device does not own the stream, which must outlive it.
  explicit Cuda(cudaStream_t stream);
  ~Cuda();
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  template <class A>
  static A array(void* buffer) {
    return reinterpret_cast<A>(STARPU_VECTOR_GET_PTR(buffer));
  }

  template <class... P>
  void launch(const kernels::Kernel<P...>& kernel, std::size_t count, std::type_identity_t<P>... args) {
    void* places[] = {&args...};
    enqueue(kernel.cuda, kernel.name, as_int(count), places);
  }

  void gemm(const GemmShape& shape, const float* a, std::size_t a_at, const float* b, std::size_t b_at, float beta,
            float* c, std::size_t c_at);

  static bool one_thread() { return false; }

  template <class T>
  T* workspace(std::size_t count) {
    return static_cast<T*>(workspace_.at_least(stream_, count * sizeof(T)));
  }

  const std::uint32_t* upload(const std::uint32_t* numbers, std::size_t count);

#if defined(PRORATA_CUDNN)
  Cudnn& cudnn() { return *cudnn_; }
#endif

  void finish();  // waits for all that was put into the stream

  // Runs on the device of the calling StarPU worker; what it throws is kept for rethrow_kernel_error().
  static void run_on_worker(void (*run)(Cuda&, void* buffers[], const void* args), void* buffers[], void* args);

 private:
  // Grows when asked for more; what is in use is freed when the stream has passed it.
  class Room {
   public:
    void* at_least(cudaStream_t stream, std::size_t bytes);
    void release(cudaStream_t stream);

   private:
    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
  };

  void enqueue(const void* kernel, const char* name, std::int32_t count, void** args);

  cudaStream_t stream_;
  std::unique_ptr<cublasContext, cublasStatus_t (*)(cublasContext*)> blas_;
#if defined(PRORATA_CUDNN)
  std::unique_ptr<Cudnn> cudnn_;
#endif
  Room workspace_, uploads_;
};

// Whether matrix products, and cuDNN's convolutions, of the devices that are made from now on may round their factors
// to TF32 (10 bits of mantissa instead of 23), which tensor cores multiply several times as fast. Off until asked for.
void allow_tf32(bool allow);

// Makes the devices of all CUDA workers ready, so that no task has to wait for cuBLAS and cuDNN to start, and lets go
// of them again. Call the one after starpu_init(), the other before starpu_shutdown().
void init_cuda_workers();
void shutdown_cuda_workers();

}  // namespace prorata
