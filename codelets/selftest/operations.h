// The table of operations: for each codelet its shapes, how to make inputs for it, and what it is to compute.
//
// To add an operation, add its shapes to shapes.h, its definition to reference.h, and one Entry to operations() below.
// Every implementation that it has is then held against its definition, at every shape, and against finite differences
// where the entry says of what it is the gradient. A codelet without an entry makes a test fail.
#pragma once

#include "codelets/selftest/batch_norm.h"
#include "codelets/selftest/entry.h"
#include "codelets/selftest/shapes.h"

#include <limits>
#include <vector>

namespace prorata::selftest {

inline std::size_t elements(const ReluShape& s) { return std::size_t(s.batch) * std::size_t(s.features); }
inline std::size_t elements(const AddShape& s) { return std::size_t(s.batch) * std::size_t(s.features); }
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
      Entry<GatherPatchesArgs>{
          .codelet = gather_patches,  // scene, places, labels, x, y
          .elements = {f32, i32, i32, f32, i32},
          .shapes = gather_patches_shapes(),
          .inputs = [](const GatherPatchesArgs& args, Random& random) -> Arguments {
            const auto pixels = static_cast<std::size_t>(args.rows) * static_cast<std::size_t>(args.columns);
            return {random.uniform(pixels * std::size_t(args.shape.channels)),
                    random.below(kGatheredFrom, static_cast<unsigned>(pixels)),
                    random.below(kGatheredFrom, kClasses),
                    {},
                    {}};
          },
          .expected = [](const GatherPatchesArgs& args, const Arguments& in) -> std::vector<Results> {
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

      Entry<AvgPoolArgs>{.codelet = avg_pool_forward,  // x, y
                         .elements = {f32, f32},
                         .shapes = avg_pool_shapes(),
                         .inputs = [](const AvgPoolArgs& args, Random& random) -> Arguments {
                           return {random.uniform(args.shape.inputs()), {}};
                         },
                         .expected = [](const AvgPoolArgs& args, const Arguments& in) -> std::vector<Results> {
                           return {{}, reference::avg_pool_forward(args.shape, in[0])};
                         }},
      Entry<AvgPoolArgs>{.codelet = avg_pool_backward,  // dy, dx; hidden: x
                         .elements = {f32, f32},
                         .shapes = avg_pool_shapes(),
                         .inputs = [](const AvgPoolArgs& args, Random& random) -> Arguments {
                           return {random.uniform(args.shape.outputs()), {}, random.uniform(args.shape.inputs())};
                         },
                         .expected = [](const AvgPoolArgs& args, const Arguments& in) -> std::vector<Results> {
                           return {{}, reference::avg_pool_backward(args.shape, in[0])};
                         },
                         .gradient_shapes = avg_pool_gradient_shapes(),
                         .scalar =
                             [](const AvgPoolArgs& args, const Arguments& in) {
                               return projection(reference::avg_pool_forward(args.shape, in[2]), in[0]);
                             },
                         .derivatives = {{2, 1}}},

      batch_norm_forward_entry(),
      batch_norm_inference_entry(),
      batch_norm_backward_entry(),
      batch_norm_backward_parameters_entry(),
      update_running_statistics_entry(),

      Entry<AddArgs>{.codelet = add_forward,  // a, b, y
                     .elements = {f32, f32, f32},
                     .shapes = add_shapes(),
                     .inputs = [](const AddArgs& args, Random& random) -> Arguments {
                       return {random.uniform(elements(args.shape)), random.uniform(elements(args.shape)), {}};
                     },
                     .expected = [](const AddArgs& args, const Arguments& in) -> std::vector<Results> {
                       return {{}, {}, reference::add_forward(args.shape, in[0], in[1])};
                     }},
      Entry<AddArgs>{.codelet = add_backward,  // y, dy, da, db; hidden: a, b
                     .elements = {f32, f32, f32, f32},
                     .shapes = add_shapes(),
                     .inputs = [](const AddArgs& args, Random& random) -> Arguments {
                       const Values a = random.uniform(elements(args.shape)), b = random.uniform(elements(args.shape));
                       const Values y = rounded(reference::add_forward(args.shape, a, b));
                       return {y, random.uniform(y.size()), {}, {}, a, b};
                     },
                     .expected = [](const AddArgs& args, const Arguments& in) -> std::vector<Results> {
                       const Results gradient = reference::add_backward(args.shape, in[0], in[1]);
                       return {{}, {}, gradient, gradient};
                     },
                     .gradient_shapes = add_gradient_shapes(),
                     .scalar =
                         [](const AddArgs& args, const Arguments& in) {
                           return projection(reference::add_forward(args.shape, in[4], in[5]), in[1]);
                         },
                     .derivatives = {{4, 2}, {5, 3}}},

      Entry<DropoutArgs>{
          .codelet = dropout,  // x, y
          .elements = {f32, f32},
          .shapes = dropout_shapes(),
          .inputs = [](const DropoutArgs& args, Random& random) -> Arguments {
            return {random.uniform(std::size_t(args.shape.batch) * std::size_t(args.shape.features)), {}};
          },
          .expected = [](const DropoutArgs& args, const Arguments& in) -> std::vector<Results> {
            return {{}, reference::dropout(args, in[0])};
          }},

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
      Entry<ApplyGradientArgs>{.codelet = apply_gradient,  // params, momentum_buffer, gradient
                               .elements = {f32, f32, f32},
                               .shapes = apply_gradient_shapes(),
                               .inputs = [](const ApplyGradientArgs& args, Random& random) -> Arguments {
                                 const auto count = std::size_t(args.shape.count);
                                 return {random.uniform(count), random.uniform(count), random.uniform(count)};
                               },
                               .expected = [](const ApplyGradientArgs& args,
                                              const Arguments& in) -> std::vector<Results> {
                                 auto [params, buffer] = reference::apply_gradient(args, in[0], in[1], in[2]);
                                 return {params, buffer, {}};
                               }},
      Entry<ApplyCompensatedGradientArgs>{
          .codelet = apply_compensated_gradient,  // params, momentum_buffer, gradient, snapshot
          .elements = {f32, f32, f32, f32},
          .shapes = apply_compensated_gradient_shapes(),
          .inputs = [](const ApplyCompensatedGradientArgs& args, Random& random) -> Arguments {
            const auto count = std::size_t(args.shape.count);
            return {random.uniform(count), random.uniform(count), random.uniform(count), random.uniform(count)};
          },
          .expected = [](const ApplyCompensatedGradientArgs& args, const Arguments& in) -> std::vector<Results> {
            auto [params, buffer] = reference::apply_compensated_gradient(args, in[0], in[1], in[2], in[3]);
            return {params, buffer, {}, {}};
          }},
      Entry<ApplyAdamArgs>{.codelet = apply_adam,  // params, exp_avg, exp_avg_sq, gradient
                           .elements = {f32, f32, f32, f32},
                           .shapes = apply_adam_shapes(),
                           .inputs = [](const ApplyAdamArgs& args, Random& random) -> Arguments {
                             const auto count = std::size_t(args.shape.count);
                             return {random.uniform(count), random.uniform(count), squares(random.uniform(count)),
                                     random.uniform(count)};
                           },
                           .expected = [](const ApplyAdamArgs& args, const Arguments& in) -> std::vector<Results> {
                             auto [params, exp_avg, exp_avg_sq] =
                                 reference::apply_adam(args, in[0], in[1], in[2], in[3]);
                             return {params, exp_avg, exp_avg_sq, {}};
                           }},
      Entry<ApplyCompensatedAdamArgs>{
          .codelet = apply_compensated_adam,  // params, exp_avg, exp_avg_sq, gradient, snapshot
          .elements = {f32, f32, f32, f32, f32},
          .shapes = apply_compensated_adam_shapes(),
          .inputs = [](const ApplyCompensatedAdamArgs& args, Random& random) -> Arguments {
            const auto count = std::size_t(args.shape.count);
            return {random.uniform(count), random.uniform(count), squares(random.uniform(count)), random.uniform(count),
                    random.uniform(count)};
          },
          .expected = [](const ApplyCompensatedAdamArgs& args, const Arguments& in) -> std::vector<Results> {
            auto [params, exp_avg, exp_avg_sq] =
                reference::apply_compensated_adam(args, in[0], in[1], in[2], in[3], in[4]);
            return {params, exp_avg, exp_avg_sq, {}, {}};
          }},
      Entry<SumOfSquaresArgs>{.codelet = sum_of_squares,  // gradient, sum
                              .elements = {f32, f32},
                              .shapes = sum_of_squares_shapes(),
                              .inputs = [](const SumOfSquaresArgs& args, Random& random) -> Arguments {
                                constexpr double kNotRead = std::numeric_limits<double>::quiet_NaN();
                                return {random.uniform(std::size_t(args.shape.count)), {args.first ? kNotRead : 0.75}};
                              },
                              .expected = [](const SumOfSquaresArgs& args,
                                             const Arguments& in) -> std::vector<Results> {
                                return {{}, reference::sum_of_squares(args, in[0], in[1])};
                              }},
      Entry<ClipGradientArgs>{
          .codelet = clip_gradient,  // gradient, squares
          .elements = {f32, f32},
          .shapes = clip_gradient_shapes(),
          .inputs = [](const ClipGradientArgs& args, Random& random) -> Arguments {
            return {random.uniform(std::size_t(args.shape.count)), squares({3 + random.uniform(1)[0]})};
          },
          .expected = [](const ClipGradientArgs& args, const Arguments& in) -> std::vector<Results> {
            return {reference::clip_gradient(args, in[0], in[1]), {}};
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
      Entry<ExchangeArgs>{.codelet = pack_changes,  // params, anchor, changes
                          .elements = {f32, f32, f32},
                          .shapes = exchange_shapes(),
                          .inputs = [](const ExchangeArgs& args, Random& random) -> Arguments {
                            const auto count = std::size_t(args.shape.count);
                            return {random.uniform(count), random.uniform(count), {}};
                          },
                          .expected = [](const ExchangeArgs& args, const Arguments& in) -> std::vector<Results> {
                            auto [params, changes] = reference::pack_changes(args, in[0], in[1]);
                            return {params, {}, changes};
                          }},
      Entry<ExchangeArgs>{.codelet = absorb_changes,  // params, anchor, changes, answer
                          .elements = {f32, f32, f32, f32},
                          .shapes = exchange_shapes(),
                          .inputs = [](const ExchangeArgs& args, Random& random) -> Arguments {
                            const auto count = std::size_t(args.shape.count);
                            return {random.uniform(count), random.uniform(count), random.uniform(count), {}};
                          },
                          .expected = [](const ExchangeArgs& args, const Arguments& in) -> std::vector<Results> {
                            auto [params, anchor, answer] = reference::absorb_changes(args, in[0], in[1], in[2]);
                            return {params, anchor, {}, answer};
                          }},
      Entry<ExchangeArgs>{
          .codelet = merge_answer,  // params, anchor, changes, answer
          .elements = {f32, f32, f32, f32},
          .shapes = exchange_shapes(),
          .inputs = [](const ExchangeArgs& args, Random& random) -> Arguments {
            const auto count = std::size_t(args.shape.count);
            return {random.uniform(count), random.uniform(count), random.uniform(count), random.uniform(count)};
          },
          .expected = [](const ExchangeArgs&, const Arguments& in) -> std::vector<Results> {
            auto [params, anchor, answer] = reference::merge_answer(in[0], in[1], in[2], in[3]);
            return {params, anchor, {}, {}};
          }},
      Entry<NarrowArgs>{.codelet = narrow,  // floats, halves
                        .elements = {f32, u16},
                        .shapes = narrow_shapes(),
                        .inputs = [](const NarrowArgs& args, Random& random) -> Arguments {
                          return {of_all_sizes(args, random), {}};
                        },
                        .expected = [](const NarrowArgs& args, const Arguments& in) -> std::vector<Results> {
                          return {{}, reference::narrow(args.shape, in[0])};
                        }},
      Entry<NarrowArgs>{.codelet = widen,  // halves, floats
                        .elements = {u16, f32},
                        .shapes = narrow_shapes(),
                        .inputs = [](const NarrowArgs& args, Random& random) -> Arguments {
                          return {rounded(reference::narrow(args.shape, of_all_sizes(args, random))), {}};
                        },
                        .expected = [](const NarrowArgs& args, const Arguments& in) -> std::vector<Results> {
                          return {{}, reference::widen(args.shape, in[0])};
                        }},
  };
  return all;
}

}  // namespace prorata::selftest
