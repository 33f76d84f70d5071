// A kernel of kernels/kernels.h as a value: what a device needs to launch it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace prorata {

// A number of elements as kernels count them. Throws std::length_error where it is more than they can.
inline std::int32_t as_int(std::size_t count) {
  constexpr std::size_t kMost = std::size_t(1) << 30;  // so that a step beyond the end of FOR_EACH does not overflow
  if (count > kMost)
    throw std::length_error(std::to_string(count) +
                            " elements are more than a device's kernels can count; use a smaller --batch");
  return static_cast<std::int32_t>(count);
}

}  // namespace prorata

namespace prorata::kernels {

template <class... Parameters>
struct Kernel {
  Kernel(const char* kernel_name, void (*run_in_order)(Parameters...), const void* stub)
      : name(kernel_name), in_order(run_in_order), cuda(stub) {}

  const char* name;  // in the OpenCL program
  void (*in_order)(Parameters...);
  const void* cuda;  // null where built without CUDA
};

}  // namespace prorata::kernels
