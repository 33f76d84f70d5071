#include "codelets/exchange.h"

#include "codelets/kernels/kernels.h"

namespace prorata {
namespace {

int format_of(const ExchangeShape& shape) { return static_cast<int>(shape.format); }

void round_to(const ExchangeShape& shape, float* x) {
  if (shape.format == WireFormat::float32) return;
  for (std::int32_t i = 0; i < shape.count; ++i) x[i] = kernels::rounded_to(x[i], format_of(shape));
}

void pack(const ExchangeArgs& args, float* __restrict params, const float* __restrict anchor,
          float* __restrict changes) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) changes[i] = args.weight * (params[i] - anchor[i]);
  if (args.elastic) {
    round_to(args.shape, changes);
    for (std::int32_t i = 0; i < args.shape.count; ++i) params[i] -= changes[i];
    return;
  }
  if (args.weight != 1)
    for (std::int32_t i = 0; i < args.shape.count; ++i) params[i] = anchor[i] + changes[i];
  round_to(args.shape, changes);
}

void absorb(const ExchangeArgs& args, float* __restrict params, float* __restrict anchor,
            const float* __restrict changes, float* __restrict answer) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) {
    params[i] += changes[i];
    answer[i] = params[i] - anchor[i];
  }
  round_to(args.shape, answer);
  for (std::int32_t i = 0; i < args.shape.count; ++i) anchor[i] += answer[i];
}

void merge(const ExchangeArgs& args, float* __restrict params, float* __restrict anchor,
           const float* __restrict changes, const float* __restrict answer) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) {
    params[i] += answer[i] - changes[i];
    anchor[i] += answer[i];
  }
}

void to_halves(const NarrowArgs& args, const float* __restrict x, std::uint16_t* __restrict y) {
  for (std::int32_t i = 0; i < args.shape.count; ++i)
    y[i] = static_cast<std::uint16_t>(kernels::narrowed(x[i], format_of(args.shape)));
}

void to_floats(const NarrowArgs& args, const std::uint16_t* __restrict x, float* __restrict y) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) y[i] = kernels::widened(x[i], format_of(args.shape));
}

struct Pack {
  template <class Device>
  static void run(Device& d, const ExchangeArgs& args, Out<Device> params, In<Device> anchor, Out<Device> changes) {
    d.launch(kernels::pack, static_cast<std::size_t>(args.shape.count), args.shape.count, format_of(args.shape),
             args.weight, args.elastic ? 1 : 0, params, anchor, changes);
  }
};

struct Absorb {
  template <class Device>
  static void run(Device& d, const ExchangeArgs& args, Out<Device> params, Out<Device> anchor, In<Device> changes,
                  Out<Device> answer) {
    d.launch(kernels::absorb, static_cast<std::size_t>(args.shape.count), args.shape.count, format_of(args.shape),
             params, anchor, changes, answer);
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

struct Narrow {
  template <class Device>
  static void run(Device& d, const NarrowArgs& args, In<Device> x, Out<Device, std::uint16_t> y) {
    d.launch(kernels::narrow, static_cast<std::size_t>(args.shape.count), args.shape.count, format_of(args.shape), x,
             y);
  }
};

struct Widen {
  template <class Device>
  static void run(Device& d, const NarrowArgs& args, In<Device, std::uint16_t> x, Out<Device> y) {
    d.launch(kernels::widen, static_cast<std::size_t>(args.shape.count), args.shape.count, format_of(args.shape), x, y);
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

const Codelet narrow{
    "narrow", {STARPU_R, STARPU_W}, footprint_of<NarrowArgs>(), {{"loops", cpu<to_halves>}}, on_devices<Narrow>()};
const Codelet widen{
    "widen", {STARPU_R, STARPU_W}, footprint_of<NarrowArgs>(), {{"loops", cpu<to_floats>}}, on_devices<Widen>()};

}  // namespace prorata
