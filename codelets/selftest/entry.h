// An entry of the table of operations (operations.h), and what entries are made of.
#pragma once

#include "codelets/selftest/harness.h"

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
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

// What is never below 0.
inline Values squares(Values values) {
  for (double& v : values) v = static_cast<float>(v * v);
  return values;
}

// From below the least number of either format of 16 bits to beyond the largest of float16.
inline Values of_all_sizes(const NarrowArgs& args, Random& random) {
  Values values = random.uniform(static_cast<std::size_t>(args.shape.count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::ldexp(values[i], 20 - static_cast<int>(i % 56)));
  return values;
}

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

}  // namespace prorata::selftest
