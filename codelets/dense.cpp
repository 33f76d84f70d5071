#include "codelets/dense.h"

#include "codelets/backend/gemm.h"
#include "codelets/kernels/elementwise.h"

namespace prorata {
namespace {

template <Gemm gemm>
void forward(const DenseArgs& args, const float* x, const float* params, float* y) {
  const auto& [batch, inputs, outputs, relu] = args.shape;
  gemm(Transpose::no, Transpose::yes, batch, outputs, inputs, x, params, y);
  kernels::add_bias(batch, outputs, params + std::size_t(inputs) * outputs, relu, y);
}

template <Gemm gemm>
void backward_parameters(const DenseArgs& args, const float* x, const float* y, float* dy, float* dparams) {
  const auto& [batch, inputs, outputs, relu] = args.shape;
  if (relu) kernels::relu_backward(std::size_t(batch) * outputs, y, dy, dy);
  gemm(Transpose::yes, Transpose::no, outputs, inputs, batch, dy, x, dparams);
  kernels::sum_rows(batch, outputs, dy, dparams + std::size_t(inputs) * outputs);
}

template <Gemm gemm>
void backward(const DenseArgs& args, const float* x, const float* params, const float* y, float* dy, float* dparams,
              float* dx) {
  backward_parameters<gemm>(args, x, y, dy, dparams);
  gemm(Transpose::no, Transpose::no, args.shape.batch, args.shape.inputs, args.shape.outputs, dy, params, dx);
}

}  // namespace

const Codelet dense_forward{"dense_forward",
                            {STARPU_R, STARPU_R, STARPU_W},
                            footprint_of<DenseArgs>(),
                            {{"onednn", cpu<forward<onednn_gemm>>}, {"openblas", cpu<forward<openblas_gemm>>}}};

const Codelet dense_backward{"dense_backward",
                             {STARPU_R, STARPU_R, STARPU_R, STARPU_RW, STARPU_W, STARPU_W},
                             footprint_of<DenseArgs>(),
                             {{"onednn", cpu<backward<onednn_gemm>>}, {"openblas", cpu<backward<openblas_gemm>>}}};

const Codelet dense_backward_parameters{"dense_backward_parameters",
                                        {STARPU_R, STARPU_R, STARPU_RW, STARPU_W},
                                        footprint_of<DenseArgs>(),
                                        {{"onednn", cpu<backward_parameters<onednn_gemm>>},
                                         {"openblas", cpu<backward_parameters<openblas_gemm>>}}};

}  // namespace prorata
