// The dialect that the files of kernels are written in: one text that is C++, CUDA C++ and OpenCL C.
//
//     KERNEL(scale, int n, float factor, GLOBAL float* x) {
//       FOR_EACH(i, n) x[i] *= factor;
//     }
//
// FOR_EACH deals the numbers 0 .. n - 1 out to whoever runs the kernel: one after the other in C++, to the threads of
// the grid on a device. Nothing may depend on their order, and no two of them may write the same element.
// Integers are 32 bits (`int`) but for LONG and ULONG, which are 64; functions are those that all three have (exp, log,
// sqrt). AS_U32 has the bits of a float, AS_FLOAT the float of bits.
//
// In C++ each kernel also becomes a value of its name, which Device::launch() takes: see backend/kernel.h.
#if defined(__OPENCL_VERSION__)

#define GLOBAL __global
#define LONG long
#define ULONG ulong
#define INLINE static inline
#define KERNEL(name, ...) __kernel void name(__VA_ARGS__)
#define FOR_EACH(i, n) for (int i = get_global_id(0); i < (n); i += get_global_size(0))
#define AS_U32(v) as_uint(v)
#define AS_FLOAT(bits) as_float(bits)
typedef uchar u8;
typedef ushort u16;
typedef uint u32;

#elif defined(__CUDACC__)

#include <cmath>
#include <cstdint>
#define GLOBAL
#define LONG std::int64_t
#define ULONG std::uint64_t
#define INLINE static inline __device__
#define KERNEL(name, ...) extern "C" __global__ void prorata_cuda_##name(__VA_ARGS__)
#define FOR_EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += gridDim.x * blockDim.x)
#define AS_U32(v) __float_as_uint(v)
#define AS_FLOAT(bits) __uint_as_float(bits)

#else

#include "codelets/backend/kernel.h"

#include <bit>
#include <cmath>
#include <cstdint>
#define GLOBAL
#define LONG std::int64_t
#define ULONG std::uint64_t
#define INLINE inline
#if defined(PRORATA_CUDA)
#define KERNEL(name, ...)                                                                                 \
  extern "C" void prorata_cuda_##name(__VA_ARGS__); /* what nvcc makes to launch it by */                 \
  inline void name##_in_order(__VA_ARGS__);                                                               \
  inline const Kernel name(#name, &name##_in_order, reinterpret_cast<const void*>(&prorata_cuda_##name)); \
  inline void name##_in_order(__VA_ARGS__)
#else
#define KERNEL(name, ...)                                     \
  inline void name##_in_order(__VA_ARGS__);                   \
  inline const Kernel name(#name, &name##_in_order, nullptr); \
  inline void name##_in_order(__VA_ARGS__)
#endif
#define FOR_EACH(i, n) for (int i = 0; i < (n); ++i)
#define AS_U32(v) std::bit_cast<std::uint32_t>(v)
#define AS_FLOAT(bits) std::bit_cast<float>(bits)
#endif

// A file of kernels has them between these two.
#if defined(__OPENCL_VERSION__)
#define KERNELS_BEGIN
#define KERNELS_END
#else
#define KERNELS_BEGIN namespace prorata::kernels {
#define KERNELS_END }
namespace prorata::kernels {
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using std::exp;
using std::log;
using std::sqrt;
}  // namespace prorata::kernels
#endif
