// The bias and the rectifier of a layer on a device, as dense and conv2d have them.
#pragma once

#include "codelets/device.h"
#include "codelets/kernels/kernels.h"

#include <algorithm>

namespace prorata {

// y[rows, columns] += the biases, which begin at `bias` in params; then the rectifier where `relu`.
template <class Device>
void add_bias(Device& d, std::size_t rows, std::int32_t columns, In<Device> params, std::size_t bias, std::int32_t relu,
              Out<Device> y) {
  d.launch(kernels::add_bias, rows * columns, as_int(rows), columns, params, as_int(bias), relu, y);
}

// How many sums a sum over many rows is best made of at first, where each is a thread's.
inline std::size_t parts_of_sum(std::size_t rows) {
  constexpr std::size_t kMostParts = 256, kRowsOfPart = 16;
  return std::clamp<std::size_t>(rows / kRowsOfPart, 1, kMostParts);
}

// Masks dy[rows, columns] where the rectifier let nothing through, and sums it up by column into dparams from `bias`
// on.
template <class Device>
void add_bias_backward(Device& d, std::size_t rows, std::int32_t columns, In<Device> y, std::int32_t relu,
                       Out<Device> dy, Out<Device> dparams, std::size_t bias) {
  if (relu) d.launch(kernels::rectify_backward, rows * columns, as_int(rows * columns), y, dy, dy);
  const std::size_t parts = parts_of_sum(rows);
  const auto partial = d.template workspace<float>(parts * columns);
  d.launch(kernels::sum_rows, parts * columns, as_int(rows), columns, as_int(parts), dy, partial);
  d.launch(kernels::sum_parts, static_cast<std::size_t>(columns), columns, as_int(parts), partial, dparams,
           as_int(bias));
}

}  // namespace prorata
