#include "codelets/batch_norm.h"

#include "codelets/selftest/reference_parts.h"

#include <algorithm>

namespace prorata::reference {
namespace {

// The elements of x[batch * pixels, channels] that are of channel `c`.
template <class Visit>
void for_each_of_channel(const BatchNormShape& s, std::size_t c, Visit visit) {
  for (std::size_t i = c; i < size(s.batch) * size(s.pixels) * size(s.channels); i += size(s.channels)) visit(i);
}

Expected count(const BatchNormShape& s) { return {double(s.batch) * s.pixels}; }

// relu?((x - mean) * inverse * gamma + beta).
Expected normalized(const BatchNormShape& s, double x, Expected mean, Expected inverse, double gamma, double beta) {
  const Expected y = (Expected{x} - mean) * inverse * Expected{gamma} + Expected{beta};
  return s.relu ? rectified(y) : y;
}

double masked(const BatchNormShape& s, double y, double dy) { return s.relu && !(y > 0) ? 0 : dy; }

}  // namespace

Normalized batch_norm_forward(const BatchNormArgs& args, const Values& x, const Values& params) {
  const BatchNormShape& s = args.shape;
  const std::size_t channels = size(s.channels);
  const Expected n = count(s), others{std::max(n.value - 1, 1.0)};
  Normalized result{Results(x.size()), Results(3 * channels)};
  for (std::size_t c = 0; c < channels; ++c) {
    Sum sum, squares;
    for_each_of_channel(s, c, [&](std::size_t i) { sum.add(x[i]); });
    const Expected mean = sum.expected() / n;
    for_each_of_channel(s, c, [&](std::size_t i) {
      const Expected deviation = Expected{x[i]} - mean;
      squares.add(deviation * deviation);
    });
    const Expected inverse = Expected{1} / root(squares.expected() / n + Expected{args.epsilon});
    for_each_of_channel(s, c, [&](std::size_t i) {
      result.y[i] = normalized(s, x[i], mean, inverse, params[c], params[channels + c]);
    });
    result.statistics[c] = mean;
    result.statistics[channels + c] = inverse;
    result.statistics[2 * channels + c] = squares.expected() / others;
  }
  return result;
}

Results batch_norm_inference(const BatchNormArgs& args, const Values& x, const Values& params, const Values& running) {
  const std::size_t channels = size(args.shape.channels);
  Results y(x.size());
  for (std::size_t c = 0; c < channels; ++c) {
    const Expected inverse = Expected{1} / root(Expected{running[channels + c]} + Expected{args.epsilon});
    for_each_of_channel(args.shape, c, [&](std::size_t i) {
      y[i] = normalized(args.shape, x[i], {running[c]}, inverse, params[c], params[channels + c]);
    });
  }
  return y;
}

NormalizedGradient batch_norm_backward(const BatchNormArgs& args, const Values& x, const Values& params,
                                       const Values& statistics, const Values& y, const Values& dy) {
  const BatchNormShape& s = args.shape;
  const std::size_t channels = size(s.channels);
  NormalizedGradient result{Results(2 * channels), Results(params.empty() ? 0 : x.size())};
  for (std::size_t c = 0; c < channels; ++c) {
    const Expected mean{statistics[c]}, inverse{statistics[channels + c]};
    const auto normal = [&](std::size_t i) { return (Expected{x[i]} - mean) * inverse; };
    Sum dgamma, dbeta;
    for_each_of_channel(s, c, [&](std::size_t i) {
      const double g = masked(s, y[i], dy[i]);
      dgamma.add(normal(i) * Expected{g});
      dbeta.add(g);
    });
    result.dparams[c] = dgamma.expected();
    result.dparams[channels + c] = dbeta.expected();
    if (params.empty()) continue;
    const Expected share_of_gamma = dgamma.expected() / count(s), share_of_beta = dbeta.expected() / count(s);
    for_each_of_channel(s, c, [&](std::size_t i) {
      const Expected g{masked(s, y[i], dy[i])};
      result.dx[i] = Expected{params[c]} * inverse * (g - share_of_beta - normal(i) * share_of_gamma);
    });
  }
  return result;
}

Results update_running_statistics(const RunningStatisticsArgs& args, const Values& running, const Values& statistics) {
  const std::size_t count = size(args.shape.count);
  const Expected momentum{args.momentum}, rest = Expected{1} - momentum;
  Results result;
  for (std::size_t i = 0; i < 2 * count; ++i)
    result.push_back(rest * Expected{running[i]} + momentum * Expected{statistics[i < count ? i : i + count]});
  return result;
}

}  // namespace prorata::reference
