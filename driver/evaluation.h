// Accuracy and loss over a whole set of samples, on the shared parameters as they are: nothing trains meanwhile.
#pragma once

#include "driver/data/dataset.h"
#include "driver/trainer.h"
#include "models/data_handle.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace prorata {

// The handles of a set of samples. The samples must outlive it.
class SampleHandles {
 public:
  explicit SampleHandles(const Samples& samples);
  const DataSource& source() const { return source_; }

 private:
  DataHandle images_, labels_, places_, normalization_;
  DataSource source_;
};

struct Score {
  struct Worker {
    std::uint64_t minibatches = 0, samples = 0;
  };
  double loss = 0;      // mean over the samples
  double accuracy = 0;  // fraction
  std::uint64_t samples = 0;
  bool complete = false;  // false: `stop` was true before the end, and the figures are of a part
  std::vector<Worker> workers;
};

// The same bits whichever worker did what, where their kernels give the same.
Score evaluate(Trainer& trainer, const Samples& samples, const std::function<bool()>& stop);
// Of the samples from `first` to before `last` only.
Score evaluate(Trainer& trainer, const Samples& samples, std::uint32_t first, std::uint32_t last,
               const std::function<bool()>& stop);
// The network's outputs, [last - first, classes], of the samples from `first` to before `last`. Stopped: an empty
// vector.
std::vector<float> outputs_of(Trainer& trainer, const SampleHandles& samples, std::uint32_t first, std::uint32_t last,
                              std::int32_t classes, const std::function<bool()>& stop);

}  // namespace prorata
