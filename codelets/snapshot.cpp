#include "codelets/snapshot.h"

#include "codelets/kernels/kernels.h"

#include <cstring>

namespace prorata {
namespace {

void copy(const SnapshotArgs& args, const float* params, float* to) {
  std::memcpy(to, params, static_cast<std::size_t>(args.shape.count) * sizeof(float));
}

struct Copy {
  template <class Device>
  static void run(Device& d, const SnapshotArgs& args, In<Device> params, Out<Device> to) {
    d.launch(kernels::copy, static_cast<std::size_t>(args.shape.count), args.shape.count, params, to);
  }
};

}  // namespace

const Codelet snapshot{
    "snapshot", {STARPU_R, STARPU_W}, footprint_of<SnapshotArgs>(), {{"memcpy", cpu<copy>}}, on_devices<Copy>()};

}  // namespace prorata
