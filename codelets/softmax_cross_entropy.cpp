#include "codelets/softmax_cross_entropy.h"

#include "codelets/kernels/kernels.h"

#include <algorithm>
#include <cmath>

namespace prorata {
namespace {

void loops(const SoftmaxCrossEntropyArgs& args, const float* logits, const std::int32_t* labels, float* dlogits,
           BatchScore* score) {
  const auto [batch, classes] = args.shape;
  const float weight = 1.0f / static_cast<float>(batch);
  double loss = 0;
  int correct = 0;
  for (std::int32_t n = 0; n < batch; ++n) {
    const float* row = logits + std::size_t(n) * classes;
    float* drow = dlogits + std::size_t(n) * classes;
    const std::int32_t label = labels[n];
    const float* largest = std::max_element(row, row + classes);
    float sum = 0;
    for (std::int32_t c = 0; c < classes; ++c) sum += drow[c] = std::exp(row[c] - *largest);
    loss += std::log(sum) - (row[label] - *largest);
    correct += largest - row == label;
    for (std::int32_t c = 0; c < classes; ++c) drow[c] *= weight / sum;
    drow[label] -= weight;
  }
  *score = {static_cast<float>(loss), static_cast<float>(correct)};
}

struct Score {
  template <class Device>
  static void run(Device& d, const SoftmaxCrossEntropyArgs& args, In<Device> logits, In<Device, std::int32_t> labels,
                  Out<Device> dlogits, Out<Device> score) {
    const auto [batch, classes] = args.shape;
    const auto samples = static_cast<std::size_t>(batch);
    const auto scores = d.template workspace<float>(2 * samples);
    d.launch(kernels::softmax_rows, samples, batch, classes, logits, labels, dlogits, scores);
    d.launch(kernels::sum_scores, 2, batch, scores, score);
  }
};
static_assert(sizeof(BatchScore) == 2 * sizeof(float), "sum_scores writes it as two numbers");

}  // namespace

const Codelet softmax_cross_entropy{"softmax_cross_entropy",
                                    {STARPU_R, STARPU_R, STARPU_W, STARPU_W},
                                    footprint_of<SoftmaxCrossEntropyArgs>(),
                                    {{"loops", cpu<loops>}},
                                    on_devices<Score>()};

}  // namespace prorata
