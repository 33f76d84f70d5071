// The table of operations: for each codelet its shapes, how to make inputs for it, and what it is to compute.
//
// To add an operation, add its shapes to shapes.h, its definition to reference.h, and one Entry to operations() below.
// Every implementation that it has is then held against its definition, at every shape, and against finite differences
// where the entry says of what it is the gradient. A codelet without an entry makes a test fail.
#pragma once

#include "codelets/selftest/harness.h"
#include "codelets/selftest/shapes.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace prorata::selftest {

using enum Element;

template <class Args>
struct Entry {
  const Codelet& codelet;
  std::vector<Element> elements;  // one a buffer
  std::vector<Args> shapes;
  Arguments (*inputs)(const Args&, Random&);
  std::vector<Results> (*expected)(const Args&, const Arguments&);  // one a buffer, empty where it is only read

  // Where the codelet computes gradients: of which scalar, for which variables. The shapes are small.
  std::vector<Args> gradient_shapes = {};
  double (*scalar)(const Args&, const Arguments&) = nullptr;
  std::vector<Derivative> derivatives = {};
  bool smooth = false;  // else linear, but for kinks

  operator Operation() const {  // NOLINT(google-explicit-constructor): the table is a list of entries
    const auto typed = [](const void* args) -> const Args& { return *static_cast<const Args*>(args); };
    return {&codelet,
            elements,
            cases(shapes),
            cases(gradient_shapes),
            [=, f = inputs](const void* args, Random& random) { return f(typed(args), random); },
            [=, f = expected](const void* args, const Arguments& in) { return f(typed(args), in); },
            [=, f = scalar](const void* args, const Arguments& in) { return f(typed(args), in); },
            derivatives,
            smooth};
  }

 private:
  static std::vector<Case> cases(const std::vector<Args>& all) {
    std::vector<Case> cases;
    for (const Args& args : all) {
      const auto& shape = args.shape;
      std::array<std::int32_t, sizeof(shape) / sizeof(std::int32_t)> extents;
      std::memcpy(extents.data(), &shape, sizeof(shape));
      std::string name = "shape";
      for (std::int32_t extent : extents) name += " " + std::to_string(extent);
      std::size_t samples;
      if constexpr (requires { shape.batch; })
        samples = static_cast<std::size_t>(shape.batch);
      else
        samples = static_cast<std::size_t>(shape.count);
      cases.push_back({name, std::make_shared<Args>(args),
                       std::string(reinterpret_cast<const char*>(&shape), sizeof(shape)), samples});
    }
    return cases;
  }
};

// As a float buffer holds them.
inline Values rounded(const Results& results) {
  Values values;
  for (const Expected& r : results) values.push_back(static_cast<float>(r.value));
  return values;
}

inline double projection(const Results& y, const Values& direction) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i].value * direction[i];
  return sum;
}

// x, params, y, dy of a layer with parameters; y is the output that belongs to x and params.
template <class Args>
struct Layer {
  Values x, params, y, dy;

  Layer(const Args& args, Random& random)
      : x(random.uniform(reference::inputs(args.shape))),
        params(random.uniform(reference::parameters(args.shape))),
        y(rounded(reference::forward(args.shape, x, params))),
        dy(random.uniform(y.size())) {}
};

template <class Args>
Entry<Args> layer_forward(const Codelet& codelet, std::vector<Args> shapes) {
  return {.codelet = codelet,  // x, params, y
          .elements = {f32, f32, f32},
          .shapes = std::move(shapes),
          .inputs = [](const Args& args, Random& random) -> Arguments {
            Layer l(args, random);
            return {l.x, l.params, {}};
          },
          .expected = [](const Args& args, const Arguments& in) -> std::vector<Results> {
            return {{}, {}, reference::forward(args.shape, in[0], in[1])};
          }};
}

template <class Args>
Entry<Args> layer_backward(const Codelet& codelet, std::vector<Args> shapes, std::vector<Args> gradient_shapes) {
  return {.codelet = codelet,  // x, params, y, dy, dparams, dx
          .elements = {f32, f32, f32, f32, f32, f32},
          .shapes = std::move(shapes),
          .inputs = [](const Args& args, Random& random) -> Arguments {
            Layer l(args, random);
            return {l.x, l.params, l.y, l.dy, {}, {}};
          },
          .expected = [](const Args& args, const Arguments& in) -> std::vector<Results> {
            auto [dy, dparams, dx] = reference::backward(args.shape, in[0], in[1], in[2], in[3]);
            return {{}, {}, {}, dy, dparams, dx};
          },
          .gradient_shapes = std::move(gradient_shapes),
          .scalar = [](const Args& args,
                       const Arguments& in) { return projection(reference::forward(args.shape, in[0], in[1]), in[3]); },
          .derivatives = {{1, 4}, {0, 5}}};
}

template <class Args>
Entry<Args> layer_backward_parameters(const Codelet& codelet, std::vector<Args> shapes,
                                      std::vector<Args> gradient_shapes) {
  return {.codelet = codelet,  // x, y, dy, dparams; hidden: params
          .elements = {f32, f32, f32, f32},
          .shapes = std::move(shapes),
          .inputs = [](const Args& args, Random& random) -> Arguments {
            Layer l(args, random);
            return {l.x, l.y, l.dy, {}, l.params};
          },
          .expected = [](const Args& args, const Arguments& in) -> std::vector<Results> {
            auto [dy, dparams, dx] = reference::backward(args.shape, in[0], {}, in[1], in[2]);
            return {{}, {}, dy, dparams};
          },
          .gradient_shapes = std::move(gradient_shapes),
          .scalar = [](const Args& args,
                       const Arguments& in) { return projection(reference::forward(args.shape, in[0], in[4]), in[2]); },
          .derivatives = {{4, 3}}};
}

inline std::size_t elements(const ReluShape& s) { return std::size_t(s.batch) * std::size_t(s.features); }
inline std::size_t elements(const MaxPoolShape& s) {
  return std::size_t(s.batch) * std::size_t(s.height) * std::size_t(s.width) * std::size_t(s.channels);
}

inline Entry<GatherBatchArgs> gather(const Codelet& codelet, Element element) {
  return {.codelet = codelet,  // images, labels, x, y
          .elements = {element, i32, f32, i32},
          .shapes = gather_batch_shapes(),
          .inputs = [](const GatherBatchArgs& args, Random& random) -> Arguments {
            return {random.below(std::size_t(args.shape.features) * kGatheredFrom, 256),
                    random.below(kGatheredFrom, kClasses),
                    {},
                    {}};
          },
          .expected = [](const GatherBatchArgs& args, const Arguments& in) -> std::vector<Results> {
            return {{},
                    {},
                    reference::gather_images(args, in[0]),
                    reference::gather_labels(args.shape.batch, args.indices, in[1])};
          }};
}

// NOLINTNEXTLINE(readability-function-size): a table
inline const std::vector<Operation>& operations() {
  static const std::vector<Operation> all{
      gather(gather_batch, u8),
      gather(gather_floats, f32),
      Entry<GatherPatchesArgs>{.codelet = gather_patches,  // scene, places, labels, x, y
                               .elements = {f32, i32, i32, f32, i32},
                               .shapes = gather_patches_shapes(),
                               .inputs = [](const GatherPatchesArgs& args, Random& random) -> Arguments {
                                 const auto pixels = static_cast<std::size_t>(args.rows * args.columns);
                                 return {random.uniform(pixels * std::size_t(args.shape.channels)),
                                         random.below(kGatheredFrom, static_cast<unsigned>(pixels)),
                                         random.below(kGatheredFrom, kClasses),
                                         {},
                                         {}};
                               },
                               .expected = [](const GatherPatchesArgs& args,
                                              const Arguments& in) -> std::vector<Results> {
                                 return {{},
                                         {},
                                         {},
                                         reference::gather_patches(args, in[0], in[1]),
                                         reference::gather_labels(args.shape.batch, args.indices, in[2])};
                               }},

      Entry<PreprocessArgs>{.codelet = preprocess,  // raw, normalization, x
                            .elements = {f32, f32, f32},
                            .shapes = preprocess_shapes(),
                            .inputs = [](const PreprocessArgs& args, Random& random) -> Arguments {
                              const PreprocessShape& s = args.shape;
                              return {random.uniform(std::size_t(s.batch) *
                                                     std::size_t(s.height * s.width * s.channels)),
                                      random.uniform(2 * std::size_t(s.channels)),
                                      {}};
                            },
                            .expected = [](const PreprocessArgs& args, const Arguments& in) -> std::vector<Results> {
                              return {{}, {}, reference::preprocess(args, in[0], in[1])};
                            }},

      layer_forward(dense_forward, dense_shapes()),
      layer_backward(dense_backward, dense_shapes(), dense_gradient_shapes()),
      layer_backward_parameters(dense_backward_parameters, dense_shapes(), dense_gradient_shapes()),

      layer_forward(conv2d_forward, conv2d_shapes()),
      layer_backward(conv2d_backward, conv2d_shapes(), conv2d_gradient_shapes()),
      layer_backward_parameters(conv2d_backward_parameters, conv2d_shapes(), conv2d_gradient_shapes()),

      Entry<MaxPoolArgs>{.codelet = max_pool_forward,  // x, y, argmax
                         .elements = {f32, f32, u8},
                         .shapes = max_pool_shapes(),
                         .inputs = [](const MaxPoolArgs& args, Random& random) -> Arguments {
                           return {random.uniform(elements(args.shape)), {}, {}};
                         },
                         .expected = [](const MaxPoolArgs& args, const Arguments& in) -> std::vector<Results> {
                           auto [y, argmax] = reference::max_pool_forward(args.shape, in[0]);
                           return {{}, y, argmax};
                         }},
      Entry<MaxPoolArgs>{.codelet = max_pool_backward,  // argmax, dy, dx; hidden: x
                         .elements = {u8, f32, f32},
                         .shapes = max_pool_shapes(),
                         .inputs = [](const MaxPoolArgs& args, Random& random) -> Arguments {
                           const Values x = random.uniform(elements(args.shape));
                           const Values argmax = rounded(reference::max_pool_forward(args.shape, x).argmax);
                           return {argmax, random.uniform(argmax.size()), {}, x};
                         },
                         .expected = [](const MaxPoolArgs& args, const Arguments& in) -> std::vector<Results> {
                           return {{}, {}, reference::max_pool_backward(args.shape, in[0], in[1])};
                         },
                         .gradient_shapes = max_pool_gradient_shapes(),
                         .scalar =
                             [](const MaxPoolArgs& args, const Arguments& in) {
                               return projection(reference::max_pool_forward(args.shape, in[3]).y, in[1]);
                             },
                         .derivatives = {{3, 2}}},

      Entry<ReluArgs>{.codelet = relu_forward,  // x, y
                      .elements = {f32, f32},
                      .shapes = relu_shapes(),
                      .inputs = [](const ReluArgs& args, Random& random) -> Arguments {
                        return {random.uniform(elements(args.shape)), {}};
                      },
                      .expected = [](const ReluArgs&, const Arguments& in) -> std::vector<Results> {
                        return {{}, reference::relu_forward(in[0])};
                      }},
      Entry<ReluArgs>{.codelet = relu_backward,  // y, dy, dx; hidden: x
                      .elements = {f32, f32, f32},
                      .shapes = relu_shapes(),
                      .inputs = [](const ReluArgs& args, Random& random) -> Arguments {
                        const Values x = random.uniform(elements(args.shape));
                        return {rounded(reference::relu_forward(x)), random.uniform(x.size()), {}, x};
                      },
                      .expected = [](const ReluArgs&, const Arguments& in) -> std::vector<Results> {
                        return {{}, {}, reference::relu_backward(in[0], in[1])};
                      },
                      .gradient_shapes = relu_gradient_shapes(),
                      .scalar = [](const ReluArgs&,
                                   const Arguments& in) { return projection(reference::relu_forward(in[3]), in[1]); },
                      .derivatives = {{3, 2}}},

      Entry<SoftmaxCrossEntropyArgs>{
          .codelet = softmax_cross_entropy,  // logits, labels, dlogits, score
          .elements = {f32, i32, f32, f32},
          .shapes = softmax_cross_entropy_shapes(),
          .inputs = [](const SoftmaxCrossEntropyArgs& args, Random& random) -> Arguments {
            const auto [batch, classes] = args.shape;
            Values logits = random.uniform(std::size_t(batch) * std::size_t(classes));
            for (double& logit : logits) logit *= 4;
            return {logits, random.below(std::size_t(batch), unsigned(classes)), {}, {}};
          },
          .expected = [](const SoftmaxCrossEntropyArgs& args, const Arguments& in) -> std::vector<Results> {
            auto [dlogits, score] = reference::softmax_cross_entropy(args.shape, in[0], in[1]);
            return {{}, {}, dlogits, score};
          },
          .gradient_shapes = softmax_cross_entropy_gradient_shapes(),
          .scalar =
              [](const SoftmaxCrossEntropyArgs& args, const Arguments& in) {
                return reference::softmax_cross_entropy(args.shape, in[0], in[1]).score[0].value / args.shape.batch;
              },
          .derivatives = {{0, 2}},
          .smooth = true},

      Entry<SnapshotArgs>{.codelet = snapshot,  // params, copy
                          .elements = {f32, f32},
                          .shapes = snapshot_shapes(),
                          .inputs = [](const SnapshotArgs& args, Random& random) -> Arguments {
                            return {random.uniform(std::size_t(args.shape.count)), {}};
                          },
                          .expected = [](const SnapshotArgs&, const Arguments& in) -> std::vector<Results> {
                            return {{}, reference::exactly(in[0])};
                          }},
      Entry<ApplyGradientArgs>{.codelet = apply_gradient,  // params, velocity, gradient
                               .elements = {f32, f32, f32},
                               .shapes = apply_gradient_shapes(),
                               .inputs = [](const ApplyGradientArgs& args, Random& random) -> Arguments {
                                 const auto count = std::size_t(args.shape.count);
                                 return {random.uniform(count), random.uniform(count), random.uniform(count)};
                               },
                               .expected = [](const ApplyGradientArgs& args,
                                              const Arguments& in) -> std::vector<Results> {
                                 auto [params, velocity] = reference::apply_gradient(args, in[0], in[1], in[2]);
                                 return {params, velocity, {}};
                               }},
      Entry<ApplyCompensatedGradientArgs>{
          .codelet = apply_compensated_gradient,  // params, velocity, gradient, snapshot
          .elements = {f32, f32, f32, f32},
          .shapes = apply_compensated_gradient_shapes(),
          .inputs = [](const ApplyCompensatedGradientArgs& args, Random& random) -> Arguments {
            const auto count = std::size_t(args.shape.count);
            return {random.uniform(count), random.uniform(count), random.uniform(count), random.uniform(count)};
          },
          .expected = [](const ApplyCompensatedGradientArgs& args, const Arguments& in) -> std::vector<Results> {
            auto [params, velocity] = reference::apply_compensated_gradient(args, in[0], in[1], in[2], in[3]);
            return {params, velocity, {}, {}};
          }},
      Entry<AccumulateGradientArgs>{.codelet = accumulate_gradient,  // sum, gradient
                                    .elements = {f32, f32},
                                    .shapes = accumulate_gradient_shapes(),
                                    .inputs = [](const AccumulateGradientArgs& args, Random& random) -> Arguments {
                                      const auto count = std::size_t(args.shape.count);
                                      return {random.uniform(count), random.uniform(count)};
                                    },
                                    .expected = [](const AccumulateGradientArgs& args,
                                                   const Arguments& in) -> std::vector<Results> {
                                      return {reference::accumulate_gradient(args, in[0], in[1]), {}};
                                    }},
  };
  return all;
}

}  // namespace prorata::selftest
