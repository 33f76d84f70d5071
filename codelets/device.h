// An operation on a device, written once for every kind of device.
//
// It is a struct with a function template over the device, which puts kernels (kernels/kernels.h) and matrix products
// one after the other into the device's queue, and waits for nothing:
//
//     struct ReluForward {
//       template <class Device>
//       static void run(Device& d, const ReluArgs& args, In<Device> x, Out<Device> y) {
//         d.launch(kernels::rectify, count, count, x, y);
//       }
//     };
//
// and on_devices<ReluForward>() gives its form for each kind that is built in. A device offers
//
//   Array<T>                      elements of T in its memory, as a kernel takes them
//   launch(kernel, n, args...)    runs a kernel whose FOR_EACH goes up to n
//   gemm(...)                     see backend/gemm.h, with places to begin at, and beta
//   workspace<T>(n)               room for n elements until the operation, or the next call, ends
//   one_thread()                  whether a few threads do all of a kernel's work, as on a CPU, rather than thousands
//   upload(numbers, n)            a copy of numbers in main memory that stay there until the task has run
//
// Devices: InOrder (the calling thread, for tests), OpenCl, Cuda.
#pragma once

#include "codelets/backend/in_order.h"
#if defined(PRORATA_OPENCL)
#include "codelets/backend/opencl.h"
#endif
#if defined(PRORATA_CUDA)
#include "codelets/backend/cuda.h"
#endif

#include <utility>

namespace prorata {

template <class Device, class T = float>
using In = typename Device::template Array<const T>;
template <class Device, class T = float>
using Out = typename Device::template Array<T>;

// The forms of one operation; null where its kind of device is not built in. `buffers` and `args` are StarPU's.
struct DeviceFunctions {
  void (*in_order)(void* buffers[], void* args) = nullptr;
  void (*opencl)(void* buffers[], void* args) = nullptr;  // of StarPU, asynchronous
  void (*cuda)(void* buffers[], void* args) = nullptr;    // of StarPU, asynchronous
#if defined(PRORATA_OPENCL)
  void (*on_opencl)(OpenCl& device, void* buffers[], const void* args) = nullptr;  // the same on a given device
#endif
#if defined(PRORATA_CUDA)
  void (*on_cuda)(Cuda& device, void* buffers[], const void* args) = nullptr;
#endif
};

namespace detail {

template <class Device, auto Run>
struct DeviceCall;

template <class Device, class Args, class... B, void (*Run)(Device&, const Args&, B...)>
struct DeviceCall<Device, Run> {
  static void on(Device& device, void* buffers[], const void* args) {
    unpack(device, buffers, args, std::index_sequence_for<B...>{});
  }
  static void on_worker(void* buffers[], void* args) { Device::run_on_worker(&on, buffers, args); }

 private:
  template <std::size_t... I>
  static void unpack(Device& device, void* buffers[], const void* args, std::index_sequence<I...>) {
    Run(device, *static_cast<const Args*>(args), Device::template array<B>(buffers[I])...);
  }
};

}  // namespace detail

template <class Operation>
constexpr DeviceFunctions on_devices() {
  DeviceFunctions functions;
  functions.in_order = &detail::DeviceCall<InOrder, &Operation::template run<InOrder>>::on_worker;
#if defined(PRORATA_OPENCL)
  functions.opencl = &detail::DeviceCall<OpenCl, &Operation::template run<OpenCl>>::on_worker;
  functions.on_opencl = &detail::DeviceCall<OpenCl, &Operation::template run<OpenCl>>::on;
#endif
#if defined(PRORATA_CUDA)
  functions.cuda = &detail::DeviceCall<Cuda, &Operation::template run<Cuda>>::on_worker;
  functions.on_cuda = &detail::DeviceCall<Cuda, &Operation::template run<Cuda>>::on;
#endif
  return functions;
}

}  // namespace prorata
