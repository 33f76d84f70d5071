// Element-wise and reduction kernels that several operations share, over row-major matrices.
#pragma once

#include <algorithm>
#include <cstddef>

namespace prorata::elementwise {

// The larger of v and floor; not a number stays so, for a diverged network must be seen to be one.
inline float rectify(float v, float floor) { return v < floor ? floor : v; }

inline void rectify(std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = rectify(y[i], 0.0f);
}

// y[rows, columns] += bias[columns], then max(0, y) where `relu`.
inline void add_bias(std::size_t rows, std::size_t columns, const float* bias, bool relu, float* y) {
  const float floor = relu ? 0.0f : -__builtin_inff();
  for (std::size_t r = 0; r < rows; ++r) {
    float* row = y + r * columns;
    for (std::size_t c = 0; c < columns; ++c) row[c] = rectify(row[c] + bias[c], floor);
  }
}

// out[columns] = sum over the rows of x[rows, columns].
inline void sum_rows(std::size_t rows, std::size_t columns, const float* x, float* out) {
  std::fill_n(out, columns, 0.0f);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = x + r * columns;
    for (std::size_t c = 0; c < columns; ++c) out[c] += row[c];
  }
}

// y[i] = a[i] + b[i], then max(0, y) where `relu`. y may be a or b.
inline void add(std::size_t count, const float* a, const float* b, bool relu, float* y) {
  const float floor = relu ? 0.0f : -__builtin_inff();
  for (std::size_t i = 0; i < count; ++i) y[i] = rectify(a[i] + b[i], floor);
}

// dx[i] = dy[i] where the rectifier let something through (y[i] > 0), else 0. dx may be dy.
inline void relu_backward(std::size_t count, const float* y, const float* dy, float* dx) {
  for (std::size_t i = 0; i < count; ++i) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

}  // namespace prorata::elementwise
