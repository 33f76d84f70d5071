// A codelet: one operation, every implementation it has, its performance model.
//
// An operation is a plain function over pointers and sizes that knows no StarPU:
//
//     void dense_forward(const DenseArgs& args, const float* x, const float* params, float* y);
//
// and a codelet is declared once, where the operation is, with its list of implementations:
//
//     const Codelet dense_forward{"dense_forward",
//                                 {STARPU_R, STARPU_R, STARPU_W},
//                                 footprint_of<DenseArgs>(),
//                                 {{"onednn", cpu<onednn::dense_forward>},
//                                  {"openblas", cpu<openblas::dense_forward>}},
//                                 on_devices<DenseForward>()};
//
// The last is the operation on CUDA and OpenCL devices: see device.h.
//
// Arguments. Every argument struct has a member `shape` of 32-bit integers: all that may change what the
// task costs. The footprint of the performance model is its hash, or that of its first footprint_bytes() where it has
// such a member; the model's size is `shape.batch`, the
// number of samples of this task, or `shape.count` where the cost has nothing to do with samples.
// task->cl_arg points to the struct, which stays the property of the submitter and must outlive the task.
//
// Buffers. Every handle has StarPU's vector interface. Handles keep their largest size; the shape says how
// much of it is used.
//
// Errors. A kernel may throw. StarPU's C code cannot carry an exception, so the wrapper keeps the first
// one, with the names of device and codelet, for rethrow_kernel_error(); the run is then to be abandoned.
#pragma once

#include "codelets/backend/happens_before.h"
#include "codelets/device.h"

#include <starpu.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace prorata {

using CpuFunction = void (*)(void* buffers[], void* args);

struct CpuImplementation {
  const char* name;  // of the library or method, as shown to users
  CpuFunction run;
};

// What StarPU asks of a task's arguments to file its performance: see footprint_of().
struct Footprint {
  std::uint32_t (*hash)(starpu_task*);
  std::size_t (*samples)(starpu_task*, unsigned implementation);
};

// Immutable after construction, and never destroyed before StarPU has shut down: declare at namespace scope.
class Codelet {
 public:
  // `modes`: one access mode a buffer. At most STARPU_MAXIMPLEMENTATIONS implementations for a kind of worker; the
  // first one is the one that a deterministic run uses.
  Codelet(const char* name, std::vector<starpu_data_access_mode> modes, Footprint footprint,
          std::vector<CpuImplementation> cpu, DeviceImplementations devices = {});
  Codelet(const Codelet&) = delete;
  Codelet& operator=(const Codelet&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<CpuImplementation>& cpu() const { return cpu_; }
  // The names of what it has for a kind of worker, in StarPU's order; none for a kind that it cannot run on.
  const std::vector<std::string>& implementations(starpu_worker_archtype kind) const;
  const DeviceImplementations& devices() const { return devices_; }
  std::size_t buffers() const { return static_cast<std::size_t>(codelet_.nbuffers); }
  // StarPU writes statistics into its codelets, hence the mutable reference.
  starpu_codelet* starpu() const { return &codelet_; }

  // Every codelet of the program, in no particular order.
  static const std::vector<const Codelet*>& all();

 private:
  // Tells StarPU what there is for a kind of worker.
  template <class Implementation, class Function>
  void offer(starpu_worker_archtype kind, std::uint32_t where, const std::vector<Implementation>& all,
             Function* functions);

  std::string name_;
  std::string symbol_;
  std::vector<CpuImplementation> cpu_;
  DeviceImplementations devices_;
  std::map<starpu_worker_archtype, std::vector<std::string>> names_;
  mutable starpu_perfmodel model_{};
  mutable starpu_codelet codelet_{};
};

// Makes every codelet use its first implementation only (true), or whichever the performance models
// prefer (false, the default). Different libraries round differently, so only the first choice gives the
// same bits in every run. Call while no task is in flight.
void use_first_implementations(bool only_first);

// From now on no codelet runs on this worker (true), or again (false). Call while no task is in flight.
void leave_out_worker(int worker, bool out);

// Throws what the first failed kernel threw, and forgets it; does nothing when none failed.
void rethrow_kernel_error();
bool kernel_failed();

namespace detail {

// Runs `kernel(args, buffers)` under the clock of the calling CPU worker: see backend/cpu_worker.h.
void run_on_cpu_worker(void (*kernel)(void* buffers[], const void* args), void* buffers[], const void* args);

template <auto Kernel>
struct KernelCall;

template <class Args, class... T, void (*Kernel)(const Args&, T*...)>
struct KernelCall<Kernel> {
  static void run(void* buffers[], void* args) { run_on_cpu_worker(&call, buffers, args); }

 private:
  static void call(void* buffers[], const void* args) { call(buffers, args, std::index_sequence_for<T...>{}); }
  template <std::size_t... I>
  static void call(void* buffers[], const void* args, std::index_sequence<I...>) {
    [[maybe_unused]] const HandleHeld held[] = {
        HandleHeld(reinterpret_cast<const void*>(STARPU_VECTOR_GET_PTR(buffers[I])))...};
    Kernel(*static_cast<const Args*>(args), reinterpret_cast<T*>(STARPU_VECTOR_GET_PTR(buffers[I]))...);
  }
};

}  // namespace detail

// The StarPU form of a plain CPU kernel.
template <auto Kernel>
inline constexpr CpuFunction cpu = &detail::KernelCall<Kernel>::run;

template <class Shape>
std::size_t footprint_bytes(const Shape& shape) {
  if constexpr (requires { shape.footprint_bytes(); })
    return shape.footprint_bytes();
  else
    return sizeof(shape);
}

template <class Args>
constexpr Footprint footprint_of() {
  using Shape = decltype(Args::shape);
  static_assert(std::has_unique_object_representations_v<Shape>, "a shape is hashed byte by byte");
  return {[](starpu_task* task) {
            const Shape& shape = static_cast<const Args*>(task->cl_arg)->shape;
            return starpu_hash_crc32c_be_n(&shape, footprint_bytes(shape), 0);
          },
          [](starpu_task* task, unsigned) {
            const Shape& shape = static_cast<const Args*>(task->cl_arg)->shape;
            if constexpr (requires { shape.batch; })
              return static_cast<std::size_t>(shape.batch);
            else
              return static_cast<std::size_t>(shape.count);
          }};
}

}  // namespace prorata
