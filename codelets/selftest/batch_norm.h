// The entries of batch normalisation in the table of operations (operations.h).
#pragma once

#include "codelets/selftest/entry.h"
#include "codelets/selftest/shapes.h"

#include <vector>

namespace prorata::selftest {

inline std::size_t elements(const BatchNormShape& s) {
  return std::size_t(s.batch) * std::size_t(s.pixels) * std::size_t(s.channels);
}

// What the directions of a batch normalisation read; statistics and y belong to x and params.
struct Normalization {
  Values x, params, statistics, y, dy;

  Normalization(const BatchNormArgs& args, Random& random)
      : x(random.uniform(elements(args.shape))),
        params(random.uniform(2 * std::size_t(args.shape.channels))),
        dy(random.uniform(x.size())) {
    const auto forward = reference::batch_norm_forward(args, x, params);
    statistics = rounded(forward.statistics);
    y = rounded(forward.y);
  }
};

inline Entry<BatchNormArgs> batch_norm_forward_entry() {
  return {.codelet = batch_norm_forward,  // x, params, y, statistics
          .elements = {f32, f32, f32, f32},
          .shapes = batch_norm_shapes(),
          .inputs = [](const BatchNormArgs& args, Random& random) -> Arguments {
            const Normalization n(args, random);
            return {n.x, n.params, {}, {}};
          },
          .expected = [](const BatchNormArgs& args, const Arguments& in) -> std::vector<Results> {
            auto [y, statistics] = reference::batch_norm_forward(args, in[0], in[1]);
            return {{}, {}, y, statistics};
          }};
}

inline Entry<BatchNormArgs> batch_norm_inference_entry() {
  return {.codelet = batch_norm_inference,  // x, params, running, y
          .elements = {f32, f32, f32, f32},
          .shapes = batch_norm_shapes(),
          .inputs = [](const BatchNormArgs& args, Random& random) -> Arguments {
            const Normalization n(args, random);
            Values running = random.uniform(n.params.size());
            for (std::size_t c = running.size() / 2; c < running.size(); ++c) running[c] += 1;
            return {n.x, n.params, running, {}};
          },
          .expected = [](const BatchNormArgs& args, const Arguments& in) -> std::vector<Results> {
            return {{}, {}, {}, reference::batch_norm_inference(args, in[0], in[1], in[2])};
          }};
}

inline Entry<BatchNormArgs> batch_norm_backward_entry() {
  return {.codelet = batch_norm_backward,  // x, params, statistics, y, dy, dparams, dx
          .elements = {f32, f32, f32, f32, f32, f32, f32},
          .shapes = batch_norm_shapes(),
          .inputs = [](const BatchNormArgs& args, Random& random) -> Arguments {
            const Normalization n(args, random);
            return {n.x, n.params, n.statistics, n.y, n.dy, {}, {}};
          },
          .expected = [](const BatchNormArgs& args, const Arguments& in) -> std::vector<Results> {
            auto [dparams, dx] = reference::batch_norm_backward(args, in[0], in[1], in[2], in[3], in[4]);
            return {{}, {}, {}, {}, {}, dparams, dx};
          },
          .gradient_shapes = batch_norm_gradient_shapes(),
          .scalar =
              [](const BatchNormArgs& args, const Arguments& in) {
                return projection(reference::batch_norm_forward(args, in[0], in[1]).y, in[4]);
              },
          .derivatives = {{1, 5}, {0, 6}},
          .smooth = true};  // but for the rectifier, whose kink no input of these shapes is next to
}

inline Entry<BatchNormArgs> batch_norm_backward_parameters_entry() {
  return {.codelet = batch_norm_backward_parameters,  // x, statistics, y, dy, dparams; hidden: params
          .elements = {f32, f32, f32, f32, f32},
          .shapes = batch_norm_shapes(),
          .inputs = [](const BatchNormArgs& args, Random& random) -> Arguments {
            const Normalization n(args, random);
            return {n.x, n.statistics, n.y, n.dy, {}, n.params};
          },
          .expected = [](const BatchNormArgs& args, const Arguments& in) -> std::vector<Results> {
            auto [dparams, dx] = reference::batch_norm_backward(args, in[0], {}, in[1], in[2], in[3]);
            return {{}, {}, {}, {}, dparams};
          },
          .gradient_shapes = batch_norm_gradient_shapes(),
          .scalar =
              [](const BatchNormArgs& args, const Arguments& in) {
                return projection(reference::batch_norm_forward(args, in[0], in[5]).y, in[3]);
              },
          .derivatives = {{5, 4}}};  // linear in params
}

inline Entry<RunningStatisticsArgs> update_running_statistics_entry() {
  return {.codelet = update_running_statistics,  // running, statistics
          .elements = {f32, f32},
          .shapes = running_statistics_shapes(),
          .inputs = [](const RunningStatisticsArgs& args, Random& random) -> Arguments {
            const auto count = std::size_t(args.shape.count);
            return {random.uniform(2 * count), random.uniform(3 * count)};
          },
          .expected = [](const RunningStatisticsArgs& args, const Arguments& in) -> std::vector<Results> {
            return {reference::update_running_statistics(args, in[0], in[1]), {}};
          }};
}

}  // namespace prorata::selftest
