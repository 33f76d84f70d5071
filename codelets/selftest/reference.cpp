#include "codelets/selftest/reference_parts.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <stdexcept>

namespace prorata::reference {
namespace {

// Calls visit(x index, weight index, y index) for each product that a convolution sums up.
template <class Visit>
void for_each_product(const Conv2dShape& s, Visit visit) {
  const auto rows = window_starts(s.height, s.padding, s.kernel, s.stride);
  const auto columns = window_starts(s.width, s.padding, s.kernel, s.stride);
  const std::int64_t ins = s.in_channels / s.groups, outs = s.out_channels / s.groups;  // of a group
  std::size_t y = 0;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t top : rows)
      for (std::int64_t left : columns)
        for (std::int64_t oc = 0; oc < s.out_channels; ++oc, ++y)
          for (std::int64_t kh = 0; kh < s.kernel; ++kh)
            for (std::int64_t kw = 0; kw < s.kernel; ++kw) {
              const std::int64_t h = top + kh, w = left + kw;
              if (h < 0 || h >= s.height || w < 0 || w >= s.width) continue;
              for (std::int64_t ic = 0; ic < ins; ++ic)
                visit(size(((n * s.height + h) * s.width + w) * s.in_channels + oc / outs * ins + ic),
                      size(((oc * s.kernel + kh) * s.kernel + kw) * ins + ic), y);
            }
}

template <class Visit>
void for_each_product(const DenseShape& s, Visit visit) {
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t o = 0; o < s.outputs; ++o)
      for (std::int64_t i = 0; i < s.inputs; ++i)
        visit(size(n * s.inputs + i), size(o * s.inputs + i), size(n * s.outputs + o));
}

std::size_t weights(const DenseShape& s) { return size(s.inputs) * size(s.outputs); }
std::size_t weights(const Conv2dShape& s) {
  return size(s.out_channels) * size(s.kernel) * size(s.kernel) * size(s.in_channels / s.groups);
}
std::size_t units(const DenseShape& s) { return size(s.outputs); }
std::size_t units(const Conv2dShape& s) { return size(s.out_channels); }
bool has_bias(const DenseShape&) { return true; }
bool has_bias(const Conv2dShape& s) { return s.bias; }
std::size_t outputs(const DenseShape& s) { return size(s.batch) * size(s.outputs); }
std::size_t outputs(const Conv2dShape& s) {
  return size(s.batch) * window_starts(s.height, s.padding, s.kernel, s.stride).size() *
         window_starts(s.width, s.padding, s.kernel, s.stride).size() * size(s.out_channels);
}

template <class Shape>
Results layer_forward(const Shape& s, const Values& x, const Values& params) {
  std::vector<Sum> y(outputs(s));
  for_each_product(s, [&](std::size_t xi, std::size_t wi, std::size_t yi) { y[yi].add_product(x[xi], params[wi]); });
  for (std::size_t i = 0; has_bias(s) && i < y.size(); ++i) y[i].add(params[weights(s) + i % units(s)]);
  Results results = expected(y);
  if (s.relu) std::transform(results.begin(), results.end(), results.begin(), rectified);
  return results;
}

template <class Shape>
LayerGradient layer_backward(const Shape& s, const Values& x, const Values& params, const Values& y, const Values& dy) {
  Values masked = dy;
  for (std::size_t i = 0; i < dy.size(); ++i)
    if (s.relu && !(y[i] > 0)) masked[i] = 0;

  std::vector<Sum> dparams(parameters(s)), dx(params.empty() ? 0 : x.size());
  for_each_product(s, [&](std::size_t xi, std::size_t wi, std::size_t yi) {
    dparams[wi].add_product(x[xi], masked[yi]);
    if (!dx.empty()) dx[xi].add_product(params[wi], masked[yi]);
  });
  for (std::size_t i = 0; has_bias(s) && i < masked.size(); ++i) dparams[weights(s) + i % units(s)].add(masked[i]);
  return {exactly(masked), expected(dparams), expected(dx)};
}

}  // namespace

double accumulated(double roundings) { return std::min(roundings, 8 * std::sqrt(roundings)); }

Results exactly(const Values& values) {
  Results results;
  for (double v : values) results.push_back({v});
  return results;
}

void Sum::add(double term) {
  value_ += term;
  magnitude_ += std::abs(term);
  ++terms_;
}

void Sum::add_product(double a, double b) {
  add(a * b);
  products_ = true;
}

void Sum::add(Expected term) {
  add(term.value);
  carried_ += term.tolerance;
}

Expected Sum::expected() const {
  if (terms_ == 0) return {0};
  const double relative = accumulated(terms_ - 1 + products_) * kRoundoff;
  if (relative * terms_ > 1) throw std::logic_error("a sum too long for its tolerance to notice a missing term");
  return {value_, relative * (magnitude_ + carried_) + carried_};
}

// The tolerance stays as it is, for the rectifier does not move two numbers apart.
Expected rectified(Expected v) { return {v.value < 0 ? 0 : v.value, v.tolerance}; }

Results gather_images(const GatherBatchArgs& args, const Values& images) {
  Results x;
  for (std::int32_t n = 0; n < args.shape.batch; ++n)
    for (std::int32_t i = 0; i < args.shape.features; ++i) {
      Sum product;
      product.add_product(images[std::size_t(args.indices[n]) * size(args.shape.features) + size(i)], args.scale);
      x.push_back(product.expected());
    }
  return x;
}

Results gather_patches(const GatherPatchesArgs& args, const Values& scene, const Values& places) {
  const auto [batch, height, width, channels] = args.shape;
  // The scene beside its mirror image, again and again.
  const auto fold = [](std::int32_t at, std::int32_t size) {
    at = (at % (2 * size) + 2 * size) % (2 * size);
    return at < size ? at : 2 * size - 1 - at;
  };
  Results x;
  for (std::int32_t n = 0; n < batch; ++n) {
    const auto place = static_cast<std::int32_t>(places[args.indices[n]]);
    for (std::int32_t h = 0; h < height; ++h)
      for (std::int32_t w = 0; w < width; ++w)
        for (std::int32_t c = 0; c < channels; ++c) {
          const std::int32_t row = fold(place / args.columns + h - height / 2, args.rows);
          const std::int32_t column = fold(place % args.columns + w - width / 2, args.columns);
          x.push_back({scene[(size(row) * size(args.columns) + size(column)) * size(channels) + size(c)]});
        }
  }
  return x;
}

// Step by step, with an image for each.
Results preprocess(const PreprocessArgs& args, const Values& raw, const Values& normalization) {
  const auto [batch, height, width, channels, crop, flip, cutout] = args.shape;
  Results x;
  for (std::int32_t n = 0; n < batch; ++n) {
    const auto drawn = philox({args.indices[n], args.epoch, 0, 1},
                              {static_cast<std::uint32_t>(args.seed), static_cast<std::uint32_t>(args.seed >> 32)});
    const auto below = [&drawn](std::size_t word, std::int32_t bound) {
      return static_cast<std::int32_t>(drawn[word] * 0x1p-32 * bound);
    };
    const auto at = [width = width, channels = channels](std::int32_t h, std::int32_t w, std::int32_t c) {
      return (size(h) * size(width) + size(w)) * size(channels) + size(c);
    };
    const Values image(raw.begin() + n * height * width * channels, raw.begin() + (n + 1) * height * width * channels);
    Values cropped(image.size()), flipped(image.size());
    Results normalized(image.size());
    for (std::int32_t h = 0; h < height; ++h)
      for (std::int32_t w = 0; w < width; ++w)
        for (std::int32_t c = 0; c < channels; ++c) {
          const std::int32_t row = h + below(0, 2 * crop + 1) - crop, column = w + below(1, 2 * crop + 1) - crop;
          const bool inside = row >= 0 && row < height && column >= 0 && column < width;
          cropped[at(h, w, c)] = inside ? image[at(row, column, c)] : 0;
        }
    for (std::int32_t h = 0; h < height; ++h)
      for (std::int32_t w = 0; w < width; ++w)
        for (std::int32_t c = 0; c < channels; ++c) {
          const bool mirror = flip != 0 && drawn[0] % 2 == 1;
          flipped[at(h, w, c)] = cropped[at(h, mirror ? width - 1 - w : w, c)];
          const double mean = normalization[size(c)], factor = normalization[size(channels + c)];
          const double value = (flipped[at(h, w, c)] - mean) * factor;
          // Two roundings.
          normalized[at(h, w, c)] = {value, 2 * kRoundoff * std::abs(value)};
        }
    const std::int32_t middle = below(2, height), centre = below(3, width);
    for (std::int32_t h = std::max(0, middle - cutout / 2); h < std::min(height, middle - cutout / 2 + cutout); ++h)
      for (std::int32_t w = std::max(0, centre - cutout / 2); w < std::min(width, centre - cutout / 2 + cutout); ++w)
        for (std::int32_t c = 0; c < channels; ++c) normalized[at(h, w, c)] = {0};
    x.insert(x.end(), normalized.begin(), normalized.end());
  }
  return x;
}

Results gather_labels(std::int32_t batch, const std::uint32_t* indices, const Values& labels) {
  Results y;
  for (std::int32_t n = 0; n < batch; ++n) y.push_back({labels[indices[n]]});
  return y;
}

std::size_t inputs(const DenseShape& s) { return size(s.batch) * size(s.inputs); }
std::size_t inputs(const Conv2dShape& s) {
  return size(s.batch) * size(s.height) * size(s.width) * size(s.in_channels);
}
std::size_t parameters(const DenseShape& s) { return weights(s) + units(s); }
std::size_t parameters(const Conv2dShape& s) { return weights(s) + (s.bias ? units(s) : 0); }

Results forward(const DenseShape& s, const Values& x, const Values& params) { return layer_forward(s, x, params); }
Results forward(const Conv2dShape& s, const Values& x, const Values& params) { return layer_forward(s, x, params); }

LayerGradient backward(const DenseShape& s, const Values& x, const Values& params, const Values& y, const Values& dy) {
  return layer_backward(s, x, params, y, dy);
}
LayerGradient backward(const Conv2dShape& s, const Values& x, const Values& params, const Values& y, const Values& dy) {
  return layer_backward(s, x, params, y, dy);
}

Results add_forward(const AddShape& s, const Values& a, const Values& b) {
  std::vector<Sum> sums(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    sums[i].add(a[i]);
    sums[i].add(b[i]);
  }
  Results y = expected(sums);
  if (s.relu) std::transform(y.begin(), y.end(), y.begin(), rectified);
  return y;
}

Results add_backward(const AddShape& s, const Values& y, const Values& dy) {
  return s.relu ? relu_backward(y, dy) : exactly(dy);
}

// A round multiplies two of the words, and crosses the halves of their products.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (std::uint64_t round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{3528531795} * counter[0], right = std::uint64_t{3449720151} * counter[2];
    const auto key0 = static_cast<std::uint32_t>(key[0] + round * 2654435769);  // the golden ratio
    const auto key1 = static_cast<std::uint32_t>(key[1] + round * 3144134277);  // sqrt(3) - 1
    counter = {static_cast<std::uint32_t>(right / (std::uint64_t{1} << 32)) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(right % (std::uint64_t{1} << 32)),
               static_cast<std::uint32_t>(left / (std::uint64_t{1} << 32)) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(left % (std::uint64_t{1} << 32))};
  }
  return counter;
}

Results dropout(const DropoutArgs& args, const Values& x) {
  const auto word = [](std::uint64_t n) { return static_cast<std::uint32_t>(n); };
  const Expected scale = Expected{1} / (Expected{1} - Expected{args.probability});
  Results y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto random = philox({word(i / 4), args.layer, word(args.minibatch), word(args.minibatch >> 32)},
                               {word(args.seed), word(args.seed >> 32)});
    const bool kept = random[i % 4] >= std::floor(args.probability * 0x1p32);
    y.push_back(Expected{x[i]} * (kept ? scale : Expected{0}));
  }
  return y;
}

Results relu_forward(const Values& x) {
  Results y = exactly(x);
  std::transform(y.begin(), y.end(), y.begin(), rectified);
  return y;
}

Results relu_backward(const Values& y, const Values& dy) {
  Results dx;
  for (std::size_t i = 0; i < y.size(); ++i) dx.push_back({y[i] > 0 ? dy[i] : 0});
  return dx;
}

// Tolerances, in units of kRoundoff, where d = logit - largest logit and p = exp(d) / sum:
//   exp(d) relative:  |d| (d is rounded once, and exp carries its error over) + 2 (exp is good to one ulp)
//   sum    relative:  that of its terms, weighted by p, + its additions
//   p      relative:  both, + 3 (1 / batch, its division by sum, the product)
//   loss   absolute:  relative error of sum + 2 |log(sum)| (one ulp) + |d(label)| + |loss| (the subtraction)
Scored softmax_cross_entropy(const SoftmaxCrossEntropyShape& s, const Values& logits, const Values& labels) {
  Scored scored;
  const std::size_t classes = size(s.classes);
  double loss = 0, loss_error = 0, correct = 0;
  for (std::size_t n = 0; n < size(s.batch); ++n) {
    const Values row(logits.begin() + std::ptrdiff_t(n * classes), logits.begin() + std::ptrdiff_t((n + 1) * classes));
    const auto label = static_cast<std::size_t>(labels[n]);
    const auto first_largest = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    correct += first_largest == label;

    double sum = 0, weighted_distance = 0;
    for (double logit : row) {
      const double d = logit - row[first_largest];
      sum += std::exp(d);
      weighted_distance += std::exp(d) * std::abs(d);
    }
    const double sum_error = weighted_distance / sum + 2 + accumulated(double(classes) - 1);
    const double label_distance = row[first_largest] - row[label];
    const double sample_loss = std::log(sum) + label_distance;
    loss += sample_loss;
    loss_error += sum_error + 2 * std::abs(std::log(sum)) + label_distance + sample_loss;

    for (std::size_t c = 0; c < classes; ++c) {
      const double d = row[c] - row[first_largest];
      const double p = std::exp(d) / sum;
      const bool here = c == label;
      const double error = p * (std::abs(d) + 2 + sum_error + 3) + (here ? 2 : 0);  // 2: 1 / batch, its subtraction
      // FLT_MIN: what underflows may do so.
      scored.dlogits.push_back({(p - here) / s.batch, error * kRoundoff / s.batch + FLT_MIN});
    }
  }
  scored.score = {{loss, (loss_error + loss) * kRoundoff}, {correct}};
  return scored;
}

Stepped apply_compensated_gradient(const ApplyCompensatedGradientArgs& args, const Values& params,
                                   const Values& momentum_buffer, const Values& gradient, const Values& snapshot) {
  Stepped stepped;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const double g = gradient[i], moved = params[i] - snapshot[i];
    Sum d, b;
    for (Sum* sum : {&d, &b}) {
      sum->add_product(args.weight, g);
      sum->add_product(args.weight_decay, params[i]);
      sum->add_product(double(args.weight) * args.compensation * g * g, moved);
    }
    b.add_product(args.momentum, momentum_buffer[i]);
    const Expected buffer = b.expected();
    Expected direction = buffer;
    if (args.nesterov) {
      Sum ahead;
      ahead.add(d.expected().value);
      ahead.add_product(args.momentum, buffer.value);
      direction = {ahead.expected().value,
                   ahead.expected().tolerance + d.expected().tolerance + args.momentum * buffer.tolerance};
    }
    Sum p;
    p.add(params[i]);
    p.add_product(-double(args.learning_rate), direction.value);
    stepped.momentum_buffer.push_back(buffer);
    stepped.params.push_back({p.expected().value, p.expected().tolerance + args.learning_rate * direction.tolerance});
  }
  return stepped;
}

Stepped apply_gradient(const ApplyGradientArgs& args, const Values& params, const Values& momentum_buffer,
                       const Values& gradient) {
  return apply_compensated_gradient({args, 0}, params, momentum_buffer, gradient, params);
}

AdamStepped apply_compensated_adam(const ApplyCompensatedAdamArgs& args, const Values& params, const Values& exp_avg,
                                   const Values& exp_avg_sq, const Values& gradient, const Values& snapshot) {
  // Of one result, for the operations below that are no sums: a division and a square root, of up to 3 units each in
  // OpenCL, and factors that are rounded to float.
  constexpr double kFew = 16 * kRoundoff;
  const double lr = args.learning_rate, decay = args.weight_decay;
  const double step_size = lr / (1 - std::pow(args.beta1, double(args.step)));
  const double correction2 = std::sqrt(1 - std::pow(args.beta2, double(args.step)));
  AdamStepped stepped;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const double g = gradient[i];
    Sum of_d;
    of_d.add_product(args.weight, g);
    of_d.add_product(double(args.weight) * args.compensation * g * g, params[i] - snapshot[i]);
    if (!args.decoupled) of_d.add_product(decay, params[i]);
    const Expected d = of_d.expected();

    const double m = args.beta1 * exp_avg[i] + (1 - args.beta1) * d.value;
    const double m_error = kFew * (std::abs(args.beta1 * exp_avg[i]) + std::abs((1 - args.beta1) * d.value)) +
                           (1 - args.beta1) * d.tolerance;
    const double v = args.beta2 * exp_avg_sq[i] + (1 - args.beta2) * d.value * d.value;
    const double v_error = kFew * v + (1 - args.beta2) * (2 * std::abs(d.value) + d.tolerance) * d.tolerance + FLT_MIN;
    stepped.exp_avg.push_back({m, m_error});
    stepped.exp_avg_sq.push_back({v, v_error});

    const double root = std::sqrt(v) / correction2 + args.epsilon;
    const double root_low = std::sqrt(std::max(0.0, v - v_error)) / correction2 + args.epsilon;
    const double root_high = std::sqrt(v + v_error) / correction2 + args.epsilon;
    const double moved = step_size * m / root;
    const double moved_error =
        step_size * (m_error / root_low + std::abs(m) * (1 / root_low - 1 / root_high)) + kFew * std::abs(moved);
    const double kept = (args.decoupled ? 1 - lr * decay : 1) * params[i];
    stepped.params.push_back({kept - moved, moved_error + kFew * std::abs(kept)});
  }
  return stepped;
}

AdamStepped apply_adam(const ApplyAdamArgs& args, const Values& params, const Values& exp_avg, const Values& exp_avg_sq,
                       const Values& gradient) {
  return apply_compensated_adam({args, 0}, params, exp_avg, exp_avg_sq, gradient, params);
}

Results sum_of_squares(const SumOfSquaresArgs& args, const Values& gradient, const Values& sum) {
  Sum s;
  if (!args.first) s.add(sum[0]);
  for (double g : gradient) s.add_product(g, g);
  return {s.expected()};
}

Results clip_gradient(const ClipGradientArgs& args, const Values& gradient, const Values& squares) {
  const double factor = args.most / (std::sqrt(squares[0]) + 1e-6);
  Results clipped;
  for (double g : gradient)
    clipped.push_back(factor > 1 ? Expected{g} : Expected{g * factor, 16 * kRoundoff * std::abs(g * factor)});
  return clipped;
}

Results accumulate_gradient(const AccumulateGradientArgs& args, const Values& sum, const Values& gradient) {
  std::vector<Sum> result(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (!args.first) result[i].add(sum[i]);
    result[i].add_product(args.weight, gradient[i]);
  }
  return expected(result);
}

namespace {

template <class... Terms>
Expected sum_of(Terms... terms) {
  Sum sum;
  (sum.add(terms), ...);
  return sum.expected();
}

struct Format {
  int digits, least_exponent, bias;  // of the significand with its leading 1; of a normal number
  double largest;
};

Format format_of(const ExchangeShape& s) {
  return s.format == WireFormat::bfloat16 ? Format{8, -126, 127, (2 - 0x1p-7) * 0x1p127} : Format{11, -14, 15, 65504};
}

// What a message loses.
Expected sent(const ExchangeShape& s, Expected v) {
  if (s.format == WireFormat::float32) return v;
  const Format f = format_of(s);
  const double roundoff = std::max(std::abs(v.value) + v.tolerance, std::ldexp(1, f.least_exponent));
  return {v.value, v.tolerance + std::ldexp(roundoff, -f.digits)};
}

}  // namespace

Packed pack_changes(const ExchangeArgs& args, const Values& params, const Values& anchor) {
  Packed packed;
  for (std::size_t i = 0; i < params.size(); ++i) {
    Sum change;
    change.add_product(args.weight, params[i]);
    change.add_product(-args.weight, anchor[i]);
    packed.changes.push_back(sent(args.shape, change.expected()));
    if (args.elastic)
      packed.params.push_back(sum_of(params[i], Expected{-packed.changes[i].value, packed.changes[i].tolerance}));
    else
      packed.params.push_back(args.weight == 1 ? Expected{params[i]} : sum_of(anchor[i], change.expected()));
  }
  return packed;
}

Exchanged absorb_changes(const ExchangeArgs& args, const Values& params, const Values& anchor, const Values& changes) {
  Exchanged e;
  for (std::size_t i = 0; i < params.size(); ++i) {
    e.params.push_back(sum_of(params[i], changes[i]));
    e.answer.push_back(sent(args.shape, sum_of(e.params[i], -anchor[i])));
    e.anchor.push_back(sum_of(anchor[i], e.answer[i]));
  }
  return e;
}

Exchanged merge_answer(const Values& params, const Values& anchor, const Values& changes, const Values& answer) {
  Exchanged e;
  for (std::size_t i = 0; i < params.size(); ++i) {
    e.params.push_back(sum_of(params[i], sum_of(answer[i], -changes[i])));
    e.anchor.push_back(sum_of(anchor[i], answer[i]));
  }
  return e;
}

Results narrow(const ExchangeShape& s, const Values& floats) {
  const Format f = format_of(s);
  Results halves;
  for (const double v : floats) {
    const double size = std::abs(v);
    const int exponent = size > 0 ? std::max(std::ilogb(size), f.least_exponent) : f.least_exponent;
    const double quantum = std::ldexp(1, exponent - f.digits + 1);
    const double nearest = std::min(std::nearbyint(size / quantum) * quantum, f.largest);
    // A significand of all ones that is rounded up has the next exponent.
    const int its_exponent = nearest > 0 ? std::max(std::ilogb(nearest), f.least_exponent) : f.least_exponent;
    const double significand = std::ldexp(nearest, f.digits - 1 - its_exponent);
    const double normal = std::ldexp(1, f.digits - 1);
    const double exponent_bits = significand < normal ? 0 : (its_exponent + f.bias) * normal;
    halves.push_back({(std::signbit(v) ? 32768 : 0) + exponent_bits + std::fmod(significand, normal)});
  }
  return halves;
}

Results widen(const ExchangeShape& s, const Values& halves) {
  const Format f = format_of(s);
  const double normal = std::ldexp(1, f.digits - 1);
  Results floats;
  for (const double half : halves) {
    const double bits = std::fmod(half, 32768), exponent = std::floor(bits / normal);
    const double significand = std::fmod(bits, normal) + (exponent > 0 ? normal : 0);
    const double size = std::ldexp(significand, static_cast<int>(std::max(exponent, 1.0)) - f.bias - f.digits + 1);
    floats.push_back({half < 32768 ? size : -size});
  }
  return floats;
}

Results matrix_product(std::size_t m, std::size_t n, std::size_t k, const Values& a, const Values& b) {
  std::vector<Sum> c(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l) c[i * n + j].add_product(a[i * k + l], b[l * n + j]);
  return expected(c);
}

}  // namespace prorata::reference
