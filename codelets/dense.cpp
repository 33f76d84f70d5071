#include "codelets/dense.h"

#include "codelets/backend/bias.h"
#include "codelets/backend/gemm.h"
#include "codelets/kernels/elementwise.h"

namespace prorata {
namespace {

template <Gemm gemm>
void forward(const DenseArgs& args, const float* x, const float* params, float* y) {
  const auto& [batch, inputs, outputs, relu] = args.shape;
  gemm(Transpose::no, Transpose::yes, batch, outputs, inputs, x, params, y);
  elementwise::add_bias(batch, outputs, params + std::size_t(inputs) * outputs, relu, y);
}

template <Gemm gemm>
void backward_parameters(const DenseArgs& args, const float* x, const float* y, float* dy, float* dparams) {
  const auto& [batch, inputs, outputs, relu] = args.shape;
  if (relu) elementwise::relu_backward(std::size_t(batch) * outputs, y, dy, dy);
  gemm(Transpose::yes, Transpose::no, outputs, inputs, batch, dy, x, dparams);
  elementwise::sum_rows(batch, outputs, dy, dparams + std::size_t(inputs) * outputs);
}

template <Gemm gemm>
void backward(const DenseArgs& args, const float* x, const float* params, const float* y, float* dy, float* dparams,
              float* dx) {
  backward_parameters<gemm>(args, x, y, dy, dparams);
  gemm(Transpose::no, Transpose::no, args.shape.batch, args.shape.inputs, args.shape.outputs, dy, params, dx);
}

std::size_t weights(const DenseShape& s) { return std::size_t(s.inputs) * s.outputs; }

struct Forward {
  template <class Device>
  static void run(Device& d, const DenseArgs& args, In<Device> x, In<Device> params, Out<Device> y) {
    const DenseShape& s = args.shape;
    d.gemm({Transpose::no, Transpose::yes, s.batch, s.outputs, s.inputs}, x, 0, params, 0, 0.0f, y, 0);
    add_bias(d, static_cast<std::size_t>(s.batch), s.outputs, params, weights(s), s.relu, y);
  }
};

struct BackwardParameters {
  template <class Device>
  static void run(Device& d, const DenseArgs& args, In<Device> x, In<Device> y, Out<Device> dy, Out<Device> dparams) {
    const DenseShape& s = args.shape;
    add_bias_backward(d, static_cast<std::size_t>(s.batch), s.outputs, y, s.relu, dy, dparams, weights(s));
    d.gemm({Transpose::yes, Transpose::no, s.outputs, s.inputs, s.batch}, dy, 0, x, 0, 0.0f, dparams, 0);
  }
};

struct Backward {
  template <class Device>
  static void run(Device& d, const DenseArgs& args, In<Device> x, In<Device> params, In<Device> y, Out<Device> dy,
                  Out<Device> dparams, Out<Device> dx) {
    const DenseShape& s = args.shape;
    BackwardParameters::run(d, args, x, y, dy, dparams);
    d.gemm({Transpose::no, Transpose::no, s.batch, s.inputs, s.outputs}, dy, 0, params, 0, 0.0f, dx, 0);
  }
};

}  // namespace

const Codelet dense_forward{"dense_forward",
                            {STARPU_R, STARPU_R, STARPU_W},
                            footprint_of<DenseArgs>(),
                            {{"onednn", cpu<forward<onednn_gemm>>}, {"openblas", cpu<forward<openblas_gemm>>}},
                            on_devices<Forward>()};

const Codelet dense_backward{"dense_backward",
                             {STARPU_R, STARPU_R, STARPU_R, STARPU_RW, STARPU_W, STARPU_W},
                             footprint_of<DenseArgs>(),
                             {{"onednn", cpu<backward<onednn_gemm>>}, {"openblas", cpu<backward<openblas_gemm>>}},
                             on_devices<Backward>()};

const Codelet dense_backward_parameters{"dense_backward_parameters",
                                        {STARPU_R, STARPU_R, STARPU_RW, STARPU_W},
                                        footprint_of<DenseArgs>(),
                                        {{"onednn", cpu<backward_parameters<onednn_gemm>>},
                                         {"openblas", cpu<backward_parameters<openblas_gemm>>}},
                                        on_devices<BackwardParameters>()};

}  // namespace prorata
