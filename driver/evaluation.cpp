#include "driver/evaluation.h"

#include <numeric>

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
