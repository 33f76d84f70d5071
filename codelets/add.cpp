#include "codelets/add.h"

#include "codelets/kernels/elementwise.h"
#include "codelets/kernels/kernels.h"

#include <algorithm>

namespace prorata {
namespace {

std::size_t elements(const AddArgs& args) { return std::size_t(args.shape.batch) * args.shape.features; }

void forward(const AddArgs& args, const float* a, const float* b, float* y) {
  elementwise::add(elements(args), a, b, args.shape.relu, y);
}

void backward(const AddArgs& args, const float* y, const float* dy, float* da, float* db) {
  if (args.shape.relu)
    elementwise::relu_backward(elements(args), y, dy, da);
  else
    std::copy_n(dy, elements(args), da);
  std::copy_n(da, elements(args), db);
}

struct Forward {
  template <class Device>
  static void run(Device& d, const AddArgs& args, In<Device> a, In<Device> b, Out<Device> y) {
    d.launch(kernels::add, elements(args), as_int(elements(args)), args.shape.relu, a, b, y);
  }
};

struct Backward {
  template <class Device>
  static void run(Device& d, const AddArgs& args, In<Device> y, In<Device> dy, Out<Device> da, Out<Device> db) {
    d.launch(kernels::add_backward, elements(args), as_int(elements(args)), args.shape.relu, y, dy, da, db);
  }
};

}  // namespace

const Codelet add_forward{"add_forward",
                          {STARPU_R, STARPU_R, STARPU_W},
                          footprint_of<AddArgs>(),
                          {{"loops", cpu<forward>}},
                          on_devices<Forward>()};

const Codelet add_backward{"add_backward",
                           {STARPU_R, STARPU_R, STARPU_W, STARPU_W},
                           footprint_of<AddArgs>(),
                           {{"loops", cpu<backward>}},
                           on_devices<Backward>()};

}  // namespace prorata
