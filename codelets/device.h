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

#include <type_traits>
#include <utility>
#include <vector>

namespace prorata {

template <class Device, class T = float>
using In = typename Device::template Array<const T>;
template <class Device, class T = float>
using Out = typename Device::template Array<T>;

// One form of an operation on the devices of a kind. `buffers` and `args` are StarPU's.
template <class Device>
struct DeviceImplementation {
  const char* name;  // of the library or method, as shown to users; of what runs on every kind, the kind's
  void (*run)(void* buffers[], void* args);  // of StarPU, asynchronous: on the device of the calling worker
  void (*run_on)(Device& device, void* buffers[], const void* args);  // the same on a given device
};

// All of one operation, for each kind of device that is built in; the first is the one that a deterministic run uses.
struct DeviceImplementations {
  std::vector<DeviceImplementation<InOrder>> in_order;
#if defined(PRORATA_OPENCL)
  std::vector<DeviceImplementation<OpenCl>> opencl;
#endif
#if defined(PRORATA_CUDA)
  std::vector<DeviceImplementation<Cuda>> cuda;
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

template <class Device, auto Run>
DeviceImplementation<Device> implementation(const char* name) {
  return {name, &DeviceCall<Device, Run>::on_worker, &DeviceCall<Device, Run>::on};
}

}  // namespace detail

// `Cudnn`: the same operation as a function run(Cuda&, args, arrays...) that uses cuDNN, a further implementation; not
// looked at where cuDNN is not built in.
template <class Operation, class Cudnn = void>
DeviceImplementations on_devices() {
  DeviceImplementations all;
  all.in_order = {detail::implementation<InOrder, &Operation::template run<InOrder>>("in_order")};
#if defined(PRORATA_OPENCL)
  all.opencl = {detail::implementation<OpenCl, &Operation::template run<OpenCl>>("opencl")};
#endif
#if defined(PRORATA_CUDA)
  all.cuda = {detail::implementation<Cuda, &Operation::template run<Cuda>>("cuda")};
#endif
#if defined(PRORATA_CUDNN)
  if constexpr (!std::is_void_v<Cudnn>) all.cuda.push_back(detail::implementation<Cuda, &Cudnn::run>("cudnn"));
#endif
  return all;
}

}  // namespace prorata
