#include "driver/evaluation.h"

#include <numeric>

namespace prorata {

SampleHandles::SampleHandles(const Samples& samples)
    : images_(DataHandle::in_main_memory(const_cast<std::uint8_t*>(samples.images.data()), samples.images.size())
                  .unordered()),
      labels_(DataHandle::in_main_memory(const_cast<std::uint8_t*>(samples.labels.data()), samples.labels.size())
                  .unordered()) {}

Score evaluate(Trainer& trainer, const Samples& samples, const std::function<bool()>& stop) {
  const SampleHandles handles(samples);
  std::vector<std::uint32_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0u);
  Score score;
  std::uint64_t correct = 0;
  const Pass pass{.kind = GroupKind::evaluate,
                  .data = handles.source(),
                  .order = order,
                  .step = {},
                  .balance = PRORATA_PRORATA,
                  .round = 0,
                  .record = [&](const MinibatchResult& m) {
                    score.loss += m.loss;
                    correct += m.correct;
                    score.samples += m.samples;
                    return true;
                  }};
  trainer.run(pass, stop, [] {});
  score.complete = score.samples == samples.size();
  if (score.samples > 0) {
    score.loss /= static_cast<double>(score.samples);
    score.accuracy = static_cast<double>(correct) / static_cast<double>(score.samples);
  }
  return score;
}

}  // namespace prorata
