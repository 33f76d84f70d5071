#include "codelets/exchange.h"

#include "codelets/kernels/kernels.h"

namespace prorata {
namespace {

void pack(const ExchangeArgs& args, float* __restrict params, const float* __restrict anchor,
          float* __restrict changes) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) changes[i] = args.weight * (params[i] - anchor[i]);
  if (args.weight == 1) return;
  for (std::int32_t i = 0; i < args.shape.count; ++i) params[i] = anchor[i] + changes[i];
}

void absorb(const ExchangeArgs& args, float* __restrict params, float* __restrict anchor,
            const float* __restrict changes, float* __restrict answer) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) {
    params[i] += changes[i];
    answer[i] = params[i] - anchor[i];
    anchor[i] += answer[i];
  }
}

void merge(const ExchangeArgs& args, float* __restrict params, float* __restrict anchor,
           const float* __restrict changes, const float* __restrict answer) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) {
    params[i] += answer[i] - changes[i];
    anchor[i] += answer[i];
  }
}

struct Pack {
  template <class Device>
  static void run(Device& d, const ExchangeArgs& args, Out<Device> params, In<Device> anchor, Out<Device> changes) {
    d.launch(kernels::pack, static_cast<std::size_t>(args.shape.count), args.shape.count, args.weight, params, anchor,
             changes);
  }
};

struct Absorb {
  template <class Device>
  static void run(Device& d, const ExchangeArgs& args, Out<Device> params, Out<Device> anchor, In<Device> changes,
                  Out<Device> answer) {
    d.launch(kernels::absorb, static_cast<std::size_t>(args.shape.count), args.shape.count, params, anchor, changes,
             answer);
  }
};

struct Merge {
  template <class Device>
  static void run(Device& d, const ExchangeArgs& args, Out<Device> params, Out<Device> anchor, In<Device> changes,
                  In<Device> answer) {
    d.launch(kernels::merge, static_cast<std::size_t>(args.shape.count), args.shape.count, params, anchor, changes,
             answer);
  }
};

}  // namespace

const Codelet pack_changes{"pack_changes",
                           {STARPU_RW, STARPU_R, STARPU_W},
                           footprint_of<ExchangeArgs>(),
                           {{"loops", cpu<pack>}},
                           on_devices<Pack>()};
const Codelet absorb_changes{"absorb_changes",
                             {STARPU_RW, STARPU_RW, STARPU_R, STARPU_W},
                             footprint_of<ExchangeArgs>(),
                             {{"loops", cpu<absorb>}},
                             on_devices<Absorb>()};
const Codelet merge_answer{"merge_answer",
                           {STARPU_RW, STARPU_RW, STARPU_R, STARPU_R},
                           footprint_of<ExchangeArgs>(),
                           {{"loops", cpu<merge>}},
                           on_devices<Merge>()};

}  // namespace prorata
