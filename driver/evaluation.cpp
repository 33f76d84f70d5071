#include "driver/evaluation.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace prorata {

namespace {

// Tasks only read it.
template <class T>
DataHandle readable(const T* data, std::size_t count, std::size_t element_size = sizeof(T)) {
  return DataHandle::in_main_memory(const_cast<T*>(data), count, element_size).unordered();
}

}  // namespace

// StarPU counts elements in 32 bits, so an element of a large set is a sample, of a scene a row.
SampleHandles::SampleHandles(const Samples& s) : labels_(readable(s.labels.data(), s.labels.size())) {
  const std::size_t elements = s.patches ? static_cast<std::size_t>(s.patches->rows) : s.size();
  images_ = readable(static_cast<const std::byte*>(s.images.data()), elements, s.images.bytes() / elements);
  if (!s.images.mapped()) images_ = std::move(images_).pinned();
  source_ = {.images = images_.get(),
             .labels = labels_.get(),
             .scale = scale_of(s.images.type()),
             .floats = s.images.type() == ElementType::float32};
  if (s.patches) {
    places_ = readable(s.patches->places.data(), s.size());
    source_.places = places_.get();
    source_.rows = s.patches->rows;
    source_.columns = s.patches->columns;
  }
  if (!s.normalization.empty()) {
    normalization_ = readable(s.normalization.data(), s.normalization.size());
    source_.normalization = normalization_.get();
  }
}

Score evaluate(Trainer& trainer, const Samples& samples, const std::function<bool()>& stop) {
  return evaluate(trainer, samples, 0, static_cast<std::uint32_t>(samples.size()), stop);
}

Score evaluate(Trainer& trainer, const Samples& samples, std::uint32_t first_sample, std::uint32_t last_sample,
               const std::function<bool()>& stop) {
  const SampleHandles handles(samples);
  std::vector<std::uint32_t> order(last_sample - first_sample);
  std::iota(order.begin(), order.end(), first_sample);
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
  score.complete = score.samples == order.size();
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
                  .outputs = outputs};
  trainer.run(pass, stop, [] {});
  if (done < order.size()) outputs.clear();
  return outputs;
}

}  // namespace prorata
