// An OpenCL device as the operations see it: see codelets/device.h.
//
// All work of a task goes into one in-order queue, StarPU's of the worker, so nothing is waited for and the workspace
// serves one operation after the other. Programs are compiled when the device is made, kernels kept by name.
//
// Errors: std::runtime_error, with what was tried and OpenCL's error code.
// Threads: a device belongs to one thread at a time; a worker's to the worker.
#pragma once

#include "codelets/backend/gemm.h"
#include "codelets/backend/kernel.h"

#include <starpu.h>
#include <starpu_opencl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <unordered_map>

namespace prorata {

class OpenCl {
 public:
  template <class T>
  struct Array {
    cl_mem memory;
    // NOLINTNEXTLINE(google-explicit-constructor): as of T*
    operator Array<const T>() const requires(!std::is_const_v<T>) { return {memory}; }
  };

  // The device does not own the queue; it keeps it, and the context, alive.
  OpenCl(cl_context context, cl_device_id device, cl_command_queue queue);
  ~OpenCl();
  OpenCl(const OpenCl&) = delete;
  OpenCl& operator=(const OpenCl&) = delete;

  template <class A>
  static A array(void* buffer) {
    return {reinterpret_cast<cl_mem>(STARPU_VECTOR_GET_DEV_HANDLE(buffer))};
  }

  template <class... P, class... A>
  void launch(const kernels::Kernel<P...>& kernel, std::size_t count, const A&... args) {
    static_assert(sizeof...(P) == sizeof...(A));
    const cl_kernel compiled = kernel_of(kernel.name);
    cl_uint place = 0;
    (set_argument<P>(compiled, place++, args), ...);
    enqueue(compiled, kernel.name, count);
  }

  void gemm(const GemmShape& shape, Array<const float> a, std::size_t a_at, Array<const float> b, std::size_t b_at,
            float beta, Array<float> c, std::size_t c_at);

  bool one_thread() const { return one_thread_; }

  template <class T>
  Array<T> workspace(std::size_t count) {
    return {workspace_.at_least(context_, count * sizeof(T))};
  }

  Array<const std::uint32_t> upload(const std::uint32_t* numbers, std::size_t count);

  void finish();  // waits for all that was put into the queue

  // Runs on the device of the calling StarPU worker; what it throws is kept for rethrow_kernel_error().
  static void run_on_worker(void (*run)(OpenCl&, void* buffers[], const void* args), void* buffers[], void* args);

 private:
  // Grows when asked for more; what is in use is freed by OpenCL when the queue has passed it.
  class Room {
   public:
    Room() = default;
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    cl_mem at_least(cl_context context, std::size_t bytes);

   private:
    cl_mem memory_ = nullptr;
    std::size_t bytes_ = 0;
  };

  template <class P, class T>
  void set_argument(cl_kernel kernel, cl_uint place, const Array<T>& array) {
    static_assert(std::is_convertible_v<T*, P>, "an array of other elements than the kernel takes");
    set_argument(kernel, place, sizeof(cl_mem), &array.memory);
  }
  template <class P>
  void set_argument(cl_kernel kernel, cl_uint place, const std::type_identity_t<P>& value) {
    static_assert(std::is_arithmetic_v<P>);
    set_argument(kernel, place, sizeof(P), &value);
  }
  void set_argument(cl_kernel kernel, cl_uint place, std::size_t bytes, const void* value);
  cl_kernel kernel_of(const char* name);
  void enqueue(cl_kernel kernel, const char* name, std::size_t count);

  cl_context context_;
  cl_command_queue queue_;
  cl_program program_ = nullptr;
  bool one_thread_ = false;
  std::unordered_map<std::string, cl_kernel> kernels_;
  Room workspace_, gemm_workspace_, uploads_;
};

// Makes the devices of all OpenCL workers ready, so that no task has to wait for a compiler, and lets go of them again.
// Call the one after starpu_init(), the other before starpu_shutdown().
void init_opencl_workers();
void shutdown_opencl_workers();

}  // namespace prorata
