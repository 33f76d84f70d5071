#include "codelets/conv2d.h"

#include "codelets/backend/onednn.h"
#include "codelets/conv2d_devices.h"
#include "codelets/kernels/elementwise.h"

namespace prorata {
namespace {

namespace with_onednn {

using dnnl::algorithm;
using dnnl::memory;
using Tag = memory::format_tag;

// Images stay in plain NHWC, where oneDNN is as fast as in its blocked formats. Weights it wants blocked:
// they are small, so each primitive reorders them (about 1 us for LeNet-5) and every other device sees
// one plain layout.
struct Descriptions {
  explicit Descriptions(const Conv2dShape& s)
      : x(onednn::plain({s.batch, s.in_channels, s.height, s.width}, Tag::nhwc)),
        y(onednn::plain({s.batch, s.out_channels, s.out_height(), s.out_width()}, Tag::nhwc)),
        weights(onednn::plain(extents_of_weights(s), s.groups == 1 ? Tag::ohwi : Tag::gohwi)),
        any_weights(onednn::plain(extents_of_weights(s), Tag::any)),
        bias(s.bias ? onednn::plain({s.out_channels}, Tag::a) : memory::desc()),
        strides{s.stride, s.stride},
        padding{s.padding, s.padding},
        // oneDNN wants the bottom and right padding that the output size implies exactly.
        padding_end{(s.out_height() - 1) * s.stride + s.kernel - s.height - s.padding,
                    (s.out_width() - 1) * s.stride + s.kernel - s.width - s.padding} {}

  static memory::dims extents_of_weights(const Conv2dShape& s) {
    if (s.groups == 1) return {s.out_channels, s.in_channels, s.kernel, s.kernel};
    return {s.groups, s.out_channels / s.groups, s.in_channels / s.groups, s.kernel, s.kernel};
  }

  memory::desc x, y, weights, any_weights, bias;
  memory::dims strides, padding, padding_end;

  dnnl::convolution_forward::primitive_desc forward() const {
    return {{dnnl::prop_kind::forward_training, algorithm::convolution_direct, x, any_weights, bias, y, strides,
             padding, padding_end},
            onednn::engine()};
  }
};

struct Forward {
  explicit Forward(const Conv2dShape& s) : d(s), description(d.forward()), primitive(description) {
    blocked = memory(description.weights_desc(), onednn::engine());
    reorder = dnnl::reorder(onednn::memory_at(d.weights, nullptr), blocked);
  }

  void run(const float* x, const float* weights, const float* bias, float* y) {
    auto plain = onednn::memory_at(d.weights, weights);
    reorder.execute(onednn::stream(), plain, blocked);
    primitive.execute(onednn::stream(), {{DNNL_ARG_SRC, onednn::memory_at(d.x, x)},
                                         {DNNL_ARG_WEIGHTS, blocked},
                                         {DNNL_ARG_BIAS, onednn::memory_at(d.bias, bias)},
                                         {DNNL_ARG_DST, onednn::memory_at(d.y, y)}});
  }

  Descriptions d;
  dnnl::convolution_forward::primitive_desc description;
  dnnl::convolution_forward primitive;
  memory blocked;
  dnnl::reorder reorder;
};

struct BackwardData {
  explicit BackwardData(const Conv2dShape& s)
      : d(s),
        description({algorithm::convolution_direct, d.x, d.any_weights, d.y, d.strides, d.padding, d.padding_end},
                    onednn::engine(), d.forward()),
        primitive(description) {
    blocked = memory(description.weights_desc(), onednn::engine());
    reorder = dnnl::reorder(onednn::memory_at(d.weights, nullptr), blocked);
  }

  void run(const float* weights, const float* dy, float* dx) {
    auto plain = onednn::memory_at(d.weights, weights);
    reorder.execute(onednn::stream(), plain, blocked);
    primitive.execute(onednn::stream(), {{DNNL_ARG_WEIGHTS, blocked},
                                         {DNNL_ARG_DIFF_DST, onednn::memory_at(d.y, dy)},
                                         {DNNL_ARG_DIFF_SRC, onednn::memory_at(d.x, dx)}});
  }

  Descriptions d;
  dnnl::convolution_backward_data::primitive_desc description;
  dnnl::convolution_backward_data primitive;
  memory blocked;
  dnnl::reorder reorder;
};

struct BackwardWeights {
  explicit BackwardWeights(const Conv2dShape& s)
      : d(s),
        description({algorithm::convolution_direct, d.x, d.any_weights, d.bias, d.y, d.strides, d.padding,
                     d.padding_end},
                    onednn::engine(), d.forward()),
        primitive(description) {
    blocked = memory(description.diff_weights_desc(), onednn::engine());
    reorder = dnnl::reorder(blocked, onednn::memory_at(d.weights, nullptr));
  }

  void run(const float* x, const float* dy, float* dweights, float* dbias) {
    primitive.execute(onednn::stream(), {{DNNL_ARG_SRC, onednn::memory_at(d.x, x)},
                                         {DNNL_ARG_DIFF_DST, onednn::memory_at(d.y, dy)},
                                         {DNNL_ARG_DIFF_WEIGHTS, blocked},
                                         {DNNL_ARG_DIFF_BIAS, onednn::memory_at(d.bias, dbias)}});
    auto plain = onednn::memory_at(d.weights, dweights);
    reorder.execute(onednn::stream(), blocked, plain);
  }

  Descriptions d;
  dnnl::convolution_backward_weights::primitive_desc description;
  dnnl::convolution_backward_weights primitive;
  memory blocked;
  dnnl::reorder reorder;
};

void forward(const Conv2dArgs& args, const float* x, const float* params, float* y) {
  onednn::cached<Forward>(args.shape).run(x, params, params + args.shape.weights(), y);
  // Not oneDNN's own fused rectifier: it turns not-a-number into 0, and a diverged network would look healthy.
  if (args.shape.relu) elementwise::rectify(args.shape.outputs(), y);
}

void backward_parameters(const Conv2dArgs& args, const float* x, const float* y, float* dy, float* dparams) {
  if (args.shape.relu) elementwise::relu_backward(args.shape.outputs(), y, dy, dy);
  onednn::cached<BackwardWeights>(args.shape).run(x, dy, dparams, dparams + args.shape.weights());
}

void backward(const Conv2dArgs& args, const float* x, const float* params, const float* y, float* dy, float* dparams,
              float* dx) {
  backward_parameters(args, x, y, dy, dparams);
  onednn::cached<BackwardData>(args.shape).run(params, dy, dx);
}

}  // namespace with_onednn

}  // namespace

const Codelet conv2d_forward{"conv2d_forward",
                             {STARPU_R, STARPU_R, STARPU_W},
                             footprint_of<Conv2dArgs>(),
                             {{"onednn", cpu<with_onednn::forward>}},
                             on_devices<on_our_own::Forward, with_cudnn::Forward>()};

const Codelet conv2d_backward{"conv2d_backward",
                              {STARPU_R, STARPU_R, STARPU_R, STARPU_RW, STARPU_W, STARPU_W},
                              footprint_of<Conv2dArgs>(),
                              {{"onednn", cpu<with_onednn::backward>}},
                              on_devices<on_our_own::Backward, with_cudnn::Backward>()};

const Codelet conv2d_backward_parameters{"conv2d_backward_parameters",
                                         {STARPU_R, STARPU_R, STARPU_RW, STARPU_W},
                                         footprint_of<Conv2dArgs>(),
                                         {{"onednn", cpu<with_onednn::backward_parameters>}},
                                         on_devices<on_our_own::BackwardParameters, with_cudnn::BackwardParameters>()};

}  // namespace prorata
