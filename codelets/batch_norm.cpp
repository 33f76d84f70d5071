#include "codelets/batch_norm.h"

#include "codelets/backend/bias.h"
#include "codelets/kernels/batch_norm.h"
#include "codelets/kernels/elementwise.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace prorata {
namespace {

namespace loops {

// Calls visit(elements before, rows) for one lot of rows after the other; a lot stays in a core's first cache.
template <class Visit>
void for_each_lot(const BatchNormShape& s, const Visit& visit) {
  constexpr std::size_t kLot = 4096;  // elements
  const auto channels = static_cast<std::size_t>(s.channels);
  const std::size_t most = std::max<std::size_t>(kLot / channels, 1);
  for (std::size_t first = 0; first < s.rows(); first += most)
    visit(first * channels, std::min(most, s.rows() - first));
}

inline void add_deviations(std::size_t channels, const float* __restrict x, const float* __restrict about,
                           float* __restrict sum) {
  for (std::size_t c = 0; c < channels; ++c) sum[c] += x[c] - about[c];
}

inline void add_squares(std::size_t channels, const float* __restrict x, const float* __restrict mean,
                        float* __restrict squares) {
  for (std::size_t c = 0; c < channels; ++c) squares[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
}

// Moves mean and squares (the sum of squared deviations) of `before` rows to those of `rows` more (Chan, Golub and
// LeVeque, 1979).
inline void join(std::size_t channels, std::size_t before, std::size_t rows, const float* __restrict mean_of_rows,
                 const float* __restrict squares_of_rows, double* __restrict mean, double* __restrict squares) {
  const double share = static_cast<double>(rows) / static_cast<double>(before + rows);
  for (std::size_t c = 0; c < channels; ++c) {
    const double distance = mean_of_rows[c] - mean[c];
    mean[c] += distance * share;
    squares[c] += squares_of_rows[c] + distance * distance * share * static_cast<double>(before);
  }
}

void batch_statistics(const BatchNormArgs& args, const float* x, float* statistics) {
  const BatchNormShape& s = args.shape;
  const auto channels = static_cast<std::size_t>(s.channels);
  thread_local std::vector<float> lot_mean, lot_squares;
  thread_local std::vector<double> mean, squares;
  lot_mean.resize(channels);
  mean.assign(channels, 0);
  squares.assign(channels, 0);
  std::size_t before = 0;
  for_each_lot(s, [&](std::size_t at, std::size_t rows) {
    const float* const first = x + at;  // the sums are about it: a mean far from 0 would leave few digits for them
    lot_mean.assign(channels, 0);
    for (std::size_t r = 1; r < rows; ++r) add_deviations(channels, first + r * channels, first, lot_mean.data());
    for (std::size_t c = 0; c < channels; ++c) lot_mean[c] = first[c] + lot_mean[c] / static_cast<float>(rows);
    lot_squares.assign(channels, 0);
    for (std::size_t r = 0; r < rows; ++r)
      add_squares(channels, first + r * channels, lot_mean.data(), lot_squares.data());
    join(channels, before, rows, lot_mean.data(), lot_squares.data(), mean.data(), squares.data());
    before += rows;
  });
  const auto n = static_cast<double>(s.rows());
  for (std::size_t c = 0; c < channels; ++c) {
    statistics[c] = static_cast<float>(mean[c]);
    statistics[channels + c] = static_cast<float>(1 / std::sqrt(squares[c] / n + args.epsilon));
    statistics[2 * channels + c] = static_cast<float>(squares[c] / std::max(n - 1, 1.0));
  }
}

inline void normalize_row(std::size_t channels, const float* __restrict x, const float* __restrict mean,
                          const float* __restrict scale, const float* __restrict beta, float floor,
                          float* __restrict y) {
  for (std::size_t c = 0; c < channels; ++c) y[c] = elementwise::rectify((x[c] - mean[c]) * scale[c] + beta[c], floor);
}

// `scale`: gamma / sqrt(variance + epsilon).
void normalize(const BatchNormShape& s, const float* x, const float* mean, const float* scale, const float* beta,
               float* y) {
  const auto channels = static_cast<std::size_t>(s.channels);
  const float floor = s.relu ? 0.0f : -__builtin_inff();
  for (std::size_t at = 0; at < s.elements(); at += channels)
    normalize_row(channels, x + at, mean, scale, beta, floor, y + at);
}

void forward(const BatchNormArgs& args, const float* x, const float* params, float* y, float* statistics) {
  const std::int32_t channels = args.shape.channels;
  thread_local std::vector<float> scale;
  batch_statistics(args, x, statistics);
  scale.resize(static_cast<std::size_t>(channels));
  for (std::int32_t c = 0; c < channels; ++c) scale[c] = params[c] * statistics[channels + c];
  normalize(args.shape, x, statistics, scale.data(), params + channels, y);
}

void inference(const BatchNormArgs& args, const float* x, const float* params, const float* running, float* y) {
  const std::int32_t channels = args.shape.channels;
  thread_local std::vector<float> scale;
  scale.resize(static_cast<std::size_t>(channels));
  for (std::int32_t c = 0; c < channels; ++c) scale[c] = params[c] / std::sqrt(running[channels + c] + args.epsilon);
  normalize(args.shape, x, running, scale.data(), params + channels, y);
}

// dy behind the rectifier; where there is none, y is not read.
template <bool relu>
inline float masked(const float* y, const float* dy, std::size_t c) {
  return relu && !(y[c] > 0.0f) ? 0.0f : dy[c];
}

template <bool relu>
void add_gradient(std::size_t channels, const float* __restrict x, const float* __restrict mean,
                  const float* __restrict y, const float* __restrict dy, float* __restrict dgamma,
                  float* __restrict dbeta) {
  for (std::size_t c = 0; c < channels; ++c) {
    const float g = masked<relu>(y, dy, c);
    dgamma[c] += g * (x[c] - mean[c]);
    dbeta[c] += g;
  }
}

void backward_parameters(const BatchNormArgs& args, const float* x, const float* statistics, const float* y,
                         const float* dy, float* dparams) {
  const BatchNormShape& s = args.shape;
  const auto channels = static_cast<std::size_t>(s.channels);
  thread_local std::vector<float> lot;
  thread_local std::vector<double> sums;
  sums.assign(2 * channels, 0);
  const auto add = s.relu ? add_gradient<true> : add_gradient<false>;
  for_each_lot(s, [&](std::size_t at, std::size_t rows) {
    lot.assign(2 * channels, 0);
    for (std::size_t i = at; i < at + rows * channels; i += channels)
      add(channels, x + i, statistics, y + i, dy + i, lot.data(), lot.data() + channels);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += lot[i];
  });
  for (std::size_t c = 0; c < channels; ++c) {
    dparams[c] = static_cast<float>(sums[c] * statistics[channels + c]);
    dparams[channels + c] = static_cast<float>(sums[channels + c]);
  }
}

// dx = scale * (g - shift - (x - mean) * slope), g being dy behind the rectifier.
template <bool relu>
void backward_row(std::size_t channels, const float* __restrict x, const float* __restrict mean,
                  const float* __restrict y, const float* __restrict dy, const float* __restrict scale,
                  const float* __restrict shift, const float* __restrict slope, float* __restrict dx) {
  for (std::size_t c = 0; c < channels; ++c)
    dx[c] = scale[c] * (masked<relu>(y, dy, c) - shift[c] - (x[c] - mean[c]) * slope[c]);
}

void backward(const BatchNormArgs& args, const float* x, const float* params, const float* statistics, const float* y,
              const float* dy, float* dparams, float* dx) {
  const BatchNormShape& s = args.shape;
  const auto channels = static_cast<std::size_t>(s.channels);
  thread_local std::vector<float> factors;
  backward_parameters(args, x, statistics, y, dy, dparams);
  factors.resize(3 * channels);
  float* const scale = factors.data();
  float* const shift = scale + channels;
  float* const slope = shift + channels;
  const auto n = static_cast<float>(s.rows());
  for (std::size_t c = 0; c < channels; ++c) {
    scale[c] = params[c] * statistics[channels + c];
    shift[c] = dparams[channels + c] / n;
    slope[c] = dparams[c] * statistics[channels + c] / n;
  }
  const auto run = s.relu ? backward_row<true> : backward_row<false>;
  for (std::size_t i = 0; i < s.elements(); i += channels)
    run(channels, x + i, statistics, y + i, dy + i, scale, shift, slope, dx + i);
}

void update(const RunningStatisticsArgs& args, float* __restrict running, const float* __restrict statistics) {
  const std::int32_t count = args.shape.count;
  const float* const variance = statistics + 2 * std::size_t(count);
  for (std::int32_t c = 0; c < count; ++c) {
    running[c] = (1 - args.momentum) * running[c] + args.momentum * statistics[c];
    running[count + c] = (1 - args.momentum) * running[count + c] + args.momentum * variance[c];
  }
}

}  // namespace loops

struct Forward {
  template <class Device>
  static void run(Device& d, const BatchNormArgs& args, In<Device> x, In<Device> params, Out<Device> y,
                  Out<Device> statistics) {
    const BatchNormShape& s = args.shape;
    const auto channels = static_cast<std::size_t>(s.channels);
    const std::size_t parts = parts_of_sum(s.rows());
    const auto partial = d.template workspace<float>(2 * parts * channels);
    d.launch(kernels::batch_moments, parts * channels, as_int(s.rows()), s.channels, as_int(parts), x, partial);
    d.launch(kernels::batch_statistics, channels, as_int(s.rows()), s.channels, as_int(parts), args.epsilon, partial,
             statistics);
    d.launch(kernels::batch_normalize, s.elements(), as_int(s.rows()), s.channels, s.relu, x, params, statistics, y);
  }
};

struct Inference {
  template <class Device>
  static void run(Device& d, const BatchNormArgs& args, In<Device> x, In<Device> params, In<Device> running,
                  Out<Device> y) {
    const BatchNormShape& s = args.shape;
    const auto channels = static_cast<std::size_t>(s.channels);
    const auto statistics = d.template workspace<float>(2 * channels);
    d.launch(kernels::running_to_statistics, channels, s.channels, args.epsilon, running, statistics);
    d.launch(kernels::batch_normalize, s.elements(), as_int(s.rows()), s.channels, s.relu, x, params, statistics, y);
  }
};

struct BackwardParameters {
  template <class Device>
  static void run(Device& d, const BatchNormArgs& args, In<Device> x, In<Device> statistics, In<Device> y,
                  In<Device> dy, Out<Device> dparams) {
    const BatchNormShape& s = args.shape;
    const auto channels = static_cast<std::size_t>(s.channels);
    const std::size_t parts = parts_of_sum(s.rows());
    const auto partial = d.template workspace<float>(2 * parts * channels);
    d.launch(kernels::batch_normalize_gradient, parts * channels, as_int(s.rows()), s.channels, as_int(parts), s.relu,
             x, statistics, y, dy, partial);
    d.launch(kernels::sum_parts, 2 * channels, as_int(2 * channels), as_int(parts), partial, dparams, 0);
  }
};

struct Backward {
  template <class Device>
  static void run(Device& d, const BatchNormArgs& args, In<Device> x, In<Device> params, In<Device> statistics,
                  In<Device> y, In<Device> dy, Out<Device> dparams, Out<Device> dx) {
    const BatchNormShape& s = args.shape;
    BackwardParameters::run<Device>(d, args, x, statistics, y, dy, dparams);
    d.launch(kernels::batch_normalize_backward, s.elements(), as_int(s.rows()), s.channels, s.relu, x, params,
             statistics, y, dy, dparams, dx);
  }
};

struct Update {
  template <class Device>
  static void run(Device& d, const RunningStatisticsArgs& args, Out<Device> running, In<Device> statistics) {
    d.launch(kernels::update_running, static_cast<std::size_t>(args.shape.count), args.shape.count, args.momentum,
             statistics, running);
  }
};

}  // namespace

const Codelet batch_norm_forward{"batch_norm_forward",
                                 {STARPU_R, STARPU_R, STARPU_W, STARPU_W},
                                 footprint_of<BatchNormArgs>(),
                                 {{"loops", cpu<loops::forward>}},
                                 on_devices<Forward>()};

const Codelet batch_norm_inference{"batch_norm_inference",
                                   {STARPU_R, STARPU_R, STARPU_R, STARPU_W},
                                   footprint_of<BatchNormArgs>(),
                                   {{"loops", cpu<loops::inference>}},
                                   on_devices<Inference>()};

const Codelet batch_norm_backward{"batch_norm_backward",
                                  {STARPU_R, STARPU_R, STARPU_R, STARPU_R, STARPU_R, STARPU_W, STARPU_W},
                                  footprint_of<BatchNormArgs>(),
                                  {{"loops", cpu<loops::backward>}},
                                  on_devices<Backward>()};

const Codelet batch_norm_backward_parameters{"batch_norm_backward_parameters",
                                             {STARPU_R, STARPU_R, STARPU_R, STARPU_R, STARPU_W},
                                             footprint_of<BatchNormArgs>(),
                                             {{"loops", cpu<loops::backward_parameters>}},
                                             on_devices<BackwardParameters>()};

const Codelet update_running_statistics{"update_running_statistics",
                                        {STARPU_RW, STARPU_R},
                                        footprint_of<RunningStatisticsArgs>(),
                                        {{"loops", cpu<loops::update>}},
                                        on_devices<Update>()};

}  // namespace prorata
