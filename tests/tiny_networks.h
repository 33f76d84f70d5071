// Small networks that have every layer, made without a file.
#pragma once

#include "models/specification.h"

namespace prorata::test {

inline LayerSpec layer(std::string name, decltype(LayerSpec::type) type, ImageShape input, ImageShape output,
                       std::vector<std::size_t> inputs = {}) {
  return {std::move(name), type, input, output, std::move(inputs)};
}

// conv2d + relu (fused), max_pool, a relu of its own, conv2d with stride, flatten, dense + relu (fused), dense.
inline NetworkSpec every_layer() {
  NetworkSpec spec;
  spec.name = "every-layer";
  spec.input = {9, 8, 2};
  spec.classes = 4;
  spec.defaults = {};
  spec.layers = {layer("conv1", Conv2dSpec{3, 3, 1, 1}, {9, 8, 2}, {9, 8, 3}),
                 layer("1", ReluSpec{}, {9, 8, 3}, {9, 8, 3}),
                 layer("2", MaxPoolSpec{2, 2}, {9, 8, 3}, {4, 4, 3}),
                 layer("3", ReluSpec{}, {4, 4, 3}, {4, 4, 3}),
                 layer("conv2", Conv2dSpec{5, 3, 2, 1}, {4, 4, 3}, {2, 2, 5}),
                 layer("5", FlattenSpec{}, {2, 2, 5}, {1, 1, 20}),
                 layer("fc1", DenseSpec{7}, {1, 1, 20}, {1, 1, 7}),
                 layer("7", ReluSpec{}, {1, 1, 7}, {1, 1, 7}),
                 layer("fc2", DenseSpec{4}, {1, 1, 7}, {1, 1, 4})};
  return spec;
}

// A value that three layers read, one of them a relu of its own beside it; an add with a relu fused into it, whose two
// readers change their gradients in place; and the mean over each channel.
inline NetworkSpec residual() {
  const ImageShape image{6, 5, 2}, inside{6, 5, 3};
  NetworkSpec spec;
  spec.name = "residual";
  spec.input = image;
  spec.classes = 4;
  spec.layers = {layer("stem", Conv2dSpec{3, 3, 1, 1}, image, inside),
                 layer("1", ReluSpec{}, inside, inside),
                 layer("conv1", Conv2dSpec{3, 3, 1, 1}, inside, inside, {0}),
                 layer("3", ReluSpec{}, inside, inside),
                 layer("conv2", Conv2dSpec{3, 1, 1, 0}, inside, inside, {0}),
                 layer("add1", AddSpec{}, inside, inside, {3, 4}),
                 layer("add2", AddSpec{}, inside, inside, {5, 1}),
                 layer("7", ReluSpec{}, inside, inside),
                 layer("conv3", Conv2dSpec{3, 3, 1, 1}, inside, inside, {7}),
                 layer("9", ReluSpec{}, inside, inside),
                 layer("conv4", Conv2dSpec{3, 3, 1, 1}, inside, inside, {7}),
                 layer("11", ReluSpec{}, inside, inside),
                 layer("add3", AddSpec{}, inside, inside, {9, 11}),
                 layer("pool", AvgPoolSpec{2, 1}, inside, {5, 4, 3}),
                 layer("mean", GlobalAvgPoolSpec{}, {5, 4, 3}, {1, 1, 3}),
                 layer("fc", DenseSpec{4}, {1, 1, 3}, {1, 1, 4})};
  return spec;
}

// Batch normalisations of the network's input, with a rectifier behind a convolution without bias, and of a flat value;
// and a convolution in groups.
inline NetworkSpec normalized() {
  const ImageShape image{5, 4, 2}, inside{5, 4, 4}, flat{1, 1, 6};
  NetworkSpec spec;
  spec.name = "normalized";
  spec.input = image;
  spec.classes = 4;
  spec.layers = {layer("bn0", BatchNormSpec{}, image, image),
                 layer("conv1", Conv2dSpec{4, 3, 1, 1, 1, false}, image, inside),
                 layer("bn1", BatchNormSpec{}, inside, inside),
                 layer("3", ReluSpec{}, inside, inside),
                 layer("conv2", Conv2dSpec{4, 3, 1, 1, 2}, inside, inside),
                 layer("fc1", DenseSpec{6}, inside, flat),
                 layer("bn2", BatchNormSpec{}, flat, flat),
                 layer("fc2", DenseSpec{4}, flat, {1, 1, 4})};
  return spec;
}

// Dropout behind a rectifier, of an image and of a flat value.
inline NetworkSpec with_dropout(float probability) {
  const ImageShape image{5, 4, 2}, inside{5, 4, 4}, flat{1, 1, 12};
  NetworkSpec spec;
  spec.name = "dropout";
  spec.input = image;
  spec.classes = 4;
  spec.layers = {layer("conv", Conv2dSpec{4, 3, 1, 1}, image, inside),
                 layer("1", ReluSpec{}, inside, inside),
                 layer("2", DropoutSpec{probability}, inside, inside),
                 layer("fc1", DenseSpec{12}, inside, flat),
                 layer("4", ReluSpec{}, flat, flat),
                 layer("5", DropoutSpec{probability}, flat, flat),
                 layer("fc2", DenseSpec{4}, flat, {1, 1, 4})};
  return spec;
}
inline NetworkSpec dropout() { return with_dropout(0.25f); }

// An add that reads the network's input, whose gradient nobody needs.
inline NetworkSpec skip_from_input() {
  const ImageShape flat{1, 1, 6};
  NetworkSpec spec;
  spec.name = "skip-from-input";
  spec.input = {3, 2, 1};
  spec.classes = 4;
  spec.layers = {layer("x", FlattenSpec{}, spec.input, flat), layer("fc1", DenseSpec{6}, flat, flat),
                 layer("add", AddSpec{}, flat, flat, {0, 1}), layer("3", ReluSpec{}, flat, flat),
                 layer("fc2", DenseSpec{4}, flat, {1, 1, 4})};
  return spec;
}

// Flatten, dense + relu, dense.
inline NetworkSpec small_mlp(std::int32_t units = 8) {
  NetworkSpec spec;
  spec.name = "small-mlp";
  spec.input = {4, 4, 1};
  spec.classes = 3;
  spec.layers = {layer("0", FlattenSpec{}, {4, 4, 1}, {1, 1, 16}),
                 layer("fc1", DenseSpec{units}, {1, 1, 16}, {1, 1, units}),
                 layer("2", ReluSpec{}, {1, 1, units}, {1, 1, units}),
                 layer("fc2", DenseSpec{3}, {1, 1, units}, {1, 1, 3})};
  return spec;
}

// With kernels that take about a millisecond.
inline NetworkSpec wide_mlp() { return small_mlp(4000); }

}  // namespace prorata::test
