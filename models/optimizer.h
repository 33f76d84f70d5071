// How gradients become updates: what a training run chooses once, and what may differ from update to update.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace prorata {

enum class OptimizerKind { sgd, adam, adamw };

inline constexpr std::pair<const char*, OptimizerKind> kOptimizers[] = {
    {"sgd", OptimizerKind::sgd}, {"adam", OptimizerKind::adam}, {"adamw", OptimizerKind::adamw}};

// The formulas are PyTorch's: codelets/apply_gradient.h, apply_adam.h, clip_gradient.h; so are the defaults.
struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  bool nesterov = false;              // of sgd
  double beta1 = 0.9, beta2 = 0.999;  // of adam and adamw, and so
  double epsilon = 1e-8;              // is this
  double clip_norm = 0;               // the largest L2 norm of all parameters' gradient together; 0: any
};

inline bool is_adam(OptimizerKind kind) { return kind != OptimizerKind::sgd; }

// What an optimizer keeps for each parameter, by PyTorch's names. All begin as 0.
inline std::vector<std::string> state_names(OptimizerKind kind) {
  return is_adam(kind) ? std::vector<std::string>{"exp_avg", "exp_avg_sq"}
                       : std::vector<std::string>{"momentum_buffer"};
}

// Of one update.
struct UpdateStep {
  float learning_rate;
  float momentum;  // of sgd
  float weight_decay;
  float weight = 1;                // what the gradient counts for
  std::uint64_t first_sample = 0;  // the number that the mini-batch's first sample has in the training
};

}  // namespace prorata
