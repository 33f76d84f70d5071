// Accuracy and loss over a whole set of samples, on the shared parameters as they are: nothing trains meanwhile.
#pragma once

#include "driver/data/dataset.h"
#include "driver/trainer.h"
#include "models/data_handle.h"

#include <functional>

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
  double loss = 0;      // mean over the samples
  double accuracy = 0;  // fraction
  std::uint64_t samples = 0;
  bool complete = false;  // false: `stop` was true before the end, and the figures are of a part
};

Score evaluate(Trainer& trainer, const Samples& samples, const std::function<bool()>& stop);

}  // namespace prorata
