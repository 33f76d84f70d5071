#include "driver/evaluation.h"

#include <algorithm>
#include <numeric>
#include <utility>

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
  score.workers.resize(starpu_worker_get_count());
  std::uint64_t correct = 0;
  std::vector<std::pair<std::uint32_t, double>> losses;  // by first sample, to be added up in that order
  const Pass pass{.kind = GroupKind::evaluate,
                  .data = handles.source(),
                  .order = order,
                  .step = {},
                  .balance = PRORATA_PRORATA,
                  .round = 0,
                  .record = [&](const MinibatchResult& m) {
                    losses.emplace_back(m.indices.front(), m.loss);
                    correct += m.correct;
                    score.samples += m.samples;
                    Score::Worker& worker = score.workers.at(static_cast<std::size_t>(m.worker));
                    ++worker.minibatches;
                    worker.samples += m.samples;
                    return true;
                  }};
  trainer.run(pass, stop, [] {});
  score.complete = score.samples == samples.size();
  std::sort(losses.begin(), losses.end());
  for (const auto& [first, loss] : losses) score.loss += loss;
  if (score.samples > 0) {
    score.loss /= static_cast<double>(score.samples);
    score.accuracy = static_cast<double>(correct) / static_cast<double>(score.samples);
  }
  return score;
}

std::vector<float> outputs_of(Trainer& trainer, const SampleHandles& samples, std::uint32_t first, std::uint32_t last,
                              std::int32_t classes, const std::function<bool()>& stop) {
  std::vector<std::uint32_t> order(last - first);
  std::iota(order.begin(), order.end(), first);
  std::vector<float> outputs(order.size() * static_cast<std::size_t>(classes));
  std::size_t done = 0;
  const Pass pass{.kind = GroupKind::evaluate,
                  .data = samples.source(),
                  .order = order,
                  .step = {},
                  .balance = PRORATA_PRORATA,
                  .round = 0,
                  .record =
                      [&done](const MinibatchResult& m) {
                        done += m.samples;
                        return true;
                      },
                  .done = 0,
                  .outputs = outputs};
  trainer.run(pass, stop, [] {});
  if (done < order.size()) outputs.clear();
  return outputs;
}

}  // namespace prorata
