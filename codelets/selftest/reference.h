// What every operation is to compute, in double precision and as naively as the headers of codelets/ define it.
// Written from those headers, not from the kernels; inputs are floats (or integers), widened exactly.
//
// Tolerance. Each expected number comes with the error that float arithmetic may make on it, from the sum of the
// absolute terms that went into it: see Sum. It is wide enough for every order of summation, with or without fused
// multiply-add, and narrow enough that a single term too few, too many or in the wrong place does not pass.
#pragma once

#include "codelets/add.h"
#include "codelets/apply_adam.h"
#include "codelets/apply_gradient.h"
#include "codelets/avg_pool.h"
#include "codelets/batch_norm.h"
#include "codelets/clip_gradient.h"
#include "codelets/conv2d.h"
#include "codelets/dense.h"
#include "codelets/dropout.h"
#include "codelets/exchange.h"
#include "codelets/gather_batch.h"
#include "codelets/gather_patches.h"
#include "codelets/max_pool.h"
#include "codelets/preprocess.h"
#include "codelets/softmax_cross_entropy.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace prorata::reference {

using Values = std::vector<double>;

struct Expected {
  double value;
  double tolerance = 0;  // of |got - value|; 0 where float arithmetic is exact
};
using Results = std::vector<Expected>;

// Unit roundoff of float: one operation is off by at most this much of its result.
inline constexpr double kRoundoff = 0x1p-24;

// How many times kRoundoff x (sum of absolute terms) a chain of `roundings` float operations may be off.
//
// `roundings` is the worst case (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1), used up to
// 64. Above, 8 sqrt(roundings): roundings behave as independent errors of mean zero, and a deviation of 8 sigma does
// not happen (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019).
double accumulated(double roundings);

// A sum of terms and products.
class Sum {
 public:
  void add(double term);
  void add_product(double a, double b);
  void add(Expected term);  // that is itself off by up to its tolerance
  // Throws std::logic_error where the sum is so long that the tolerance exceeds an average term: use smaller shapes.
  Expected expected() const;

 private:
  double value_ = 0;
  double magnitude_ = 0;
  double carried_ = 0;  // tolerances of the terms
  double terms_ = 0;
  bool products_ = false;
};

Results exactly(const Values& values);

// max(0, v), except that not a number stays so.
Expected rectified(Expected v);

Results gather_images(const GatherBatchArgs& args, const Values& images);
Results gather_patches(const GatherPatchesArgs& args, const Values& scene, const Values& places);
Results preprocess(const PreprocessArgs& args, const Values& raw, const Values& normalization);
Results gather_labels(std::int32_t batch, const std::uint32_t* indices, const Values& labels);

// Layers with parameters. `backward` takes the gradient dy of the output y; its result dy is masked by relu. Without
// params (empty) there is no dx.
struct LayerGradient {
  Results dy, dparams, dx;
};
std::size_t inputs(const DenseShape& s);
std::size_t parameters(const DenseShape& s);
Results forward(const DenseShape& s, const Values& x, const Values& params);
LayerGradient backward(const DenseShape& s, const Values& x, const Values& params, const Values& y, const Values& dy);

std::size_t inputs(const Conv2dShape& s);
std::size_t parameters(const Conv2dShape& s);
Results forward(const Conv2dShape& s, const Values& x, const Values& params);
LayerGradient backward(const Conv2dShape& s, const Values& x, const Values& params, const Values& y, const Values& dy);

struct Pooled {
  Results y, argmax;
};
Pooled max_pool_forward(const MaxPoolShape& s, const Values& x);
Results max_pool_backward(const MaxPoolShape& s, const Values& argmax, const Values& dy);

Results avg_pool_forward(const AvgPoolShape& s, const Values& x);
Results avg_pool_backward(const AvgPoolShape& s, const Values& dy);

// The gradient takes the statistics, the output y and its gradient dy. Without params (empty) there is no dx.
struct Normalized {
  Results y, statistics;
};
struct NormalizedGradient {
  Results dparams, dx;
};
Normalized batch_norm_forward(const BatchNormArgs& args, const Values& x, const Values& params);
Results batch_norm_inference(const BatchNormArgs& args, const Values& x, const Values& params, const Values& running);
NormalizedGradient batch_norm_backward(const BatchNormArgs& args, const Values& x, const Values& params,
                                       const Values& statistics, const Values& y, const Values& dy);
Results update_running_statistics(const RunningStatisticsArgs& args, const Values& running, const Values& statistics);

Results add_forward(const AddShape& s, const Values& a, const Values& b);
Results add_backward(const AddShape& s, const Values& y, const Values& dy);  // for a and for b

// Philox4x32-10.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);
Results dropout(const DropoutArgs& args, const Values& x);

Results relu_forward(const Values& x);
Results relu_backward(const Values& y, const Values& dy);

struct Scored {
  Results dlogits, score;  // score: loss, correct
};
Scored softmax_cross_entropy(const SoftmaxCrossEntropyShape& s, const Values& logits, const Values& labels);

struct Stepped {
  Results params, momentum_buffer;
};
Stepped apply_gradient(const ApplyGradientArgs& args, const Values& params, const Values& momentum_buffer,
                       const Values& gradient);
Stepped apply_compensated_gradient(const ApplyCompensatedGradientArgs& args, const Values& params,
                                   const Values& momentum_buffer, const Values& gradient, const Values& snapshot);

struct AdamStepped {
  Results params, exp_avg, exp_avg_sq;
};
AdamStepped apply_adam(const ApplyAdamArgs& args, const Values& params, const Values& exp_avg, const Values& exp_avg_sq,
                       const Values& gradient);
AdamStepped apply_compensated_adam(const ApplyCompensatedAdamArgs& args, const Values& params, const Values& exp_avg,
                                   const Values& exp_avg_sq, const Values& gradient, const Values& snapshot);

Results sum_of_squares(const SumOfSquaresArgs& args, const Values& gradient, const Values& sum);
Results clip_gradient(const ClipGradientArgs& args, const Values& gradient, const Values& squares);
Results accumulate_gradient(const AccumulateGradientArgs& args, const Values& sum, const Values& gradient);

struct Packed {
  Results params, changes;
};
Packed pack_changes(const ExchangeArgs& args, const Values& params, const Values& anchor);
struct Exchanged {
  Results params, anchor, answer;
};
Exchanged absorb_changes(const ExchangeArgs& args, const Values& params, const Values& anchor, const Values& changes);
Exchanged merge_answer(const Values& params, const Values& anchor, const Values& changes, const Values& answer);
// As numbers of 16 bits, and back.
Results narrow(const ExchangeShape& s, const Values& floats);
Results widen(const ExchangeShape& s, const Values& halves);

// c[m, n] = a[m, k] b[k, n].
Results matrix_product(std::size_t m, std::size_t n, std::size_t k, const Values& a, const Values& b);

}  // namespace prorata::reference
