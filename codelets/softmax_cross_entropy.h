// Softmax and cross entropy in one: the loss of a batch, and its gradient for the logits.
//
// Shapes: logits and dlogits [batch, classes], labels [batch] with 0 <= label < classes.
// dlogits is the gradient of the batch's mean loss, so a sample weighs 1 / batch.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct SoftmaxCrossEntropyShape {
  std::int32_t batch;
  std::int32_t classes;
};

struct SoftmaxCrossEntropyArgs {
  SoftmaxCrossEntropyShape shape;
};

struct BatchScore {
  float loss;     // sum over the samples, in nats
  float correct;  // samples whose largest logit (the first, where equal) is at their label
};

extern const Codelet softmax_cross_entropy;  // logits R, labels R (int32), dlogits W, score W (one BatchScore)

}  // namespace prorata
