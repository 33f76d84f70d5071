// The device that is the calling thread: it runs kernels in order, one number after the other. For tests, which hold by
// it the logic of every device's operations against the reference.
#pragma once

#include "codelets/backend/gemm.h"
#include "codelets/backend/kernel.h"

#include <starpu.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace prorata {

class InOrder {
 public:
  template <class T>
  using Array = T*;

  template <class A>
  static A array(void* buffer) {
    return reinterpret_cast<A>(STARPU_VECTOR_GET_PTR(buffer));
  }

  template <class... P>
  void launch(const kernels::Kernel<P...>& kernel, std::size_t /*count*/, std::type_identity_t<P>... args) {
    kernel.in_order(args...);
  }

  void gemm(const GemmShape& s, const float* a, std::size_t a_at, const float* b, std::size_t b_at, float beta,
            float* c, std::size_t c_at) {
    openblas_gemm(s, a + a_at, b + b_at, beta, c + c_at);
  }

  static bool one_thread() { return true; }

  template <class T>
  T* workspace(std::size_t count) {
    workspace_.resize(count * sizeof(T));
    return reinterpret_cast<T*>(workspace_.data());
  }

  const std::uint32_t* upload(const std::uint32_t* numbers, std::size_t /*count*/) { return numbers; }

  static void run_on_worker(void (*run)(InOrder&, void* buffers[], const void* args), void* buffers[], void* args) {
    InOrder device;
    run(device, buffers, args);
  }

 private:
  std::vector<std::byte> workspace_;
};

}  // namespace prorata
