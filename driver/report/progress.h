// The live line on standard error, or plain lines in a log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace prorata {

struct ProgressState {
  int epoch, epochs;
  std::uint64_t minibatches, minibatches_of_epoch;
  double loss, accuracy;       // of the mini-batches since the last state
  double samples_per_second;   // of the epoch so far
  double staleness;            // mean of the epoch so far
  std::vector<double> shares;  // of the workers, fractions
};

class Progress {
 public:
  enum class Mode { live, lines, off };
  explicit Progress(Mode mode) : mode_(mode) {}
  ~Progress() { clear(); }

  // The mode for `--progress auto|on|off`.
  static Mode choose(const std::string& option, bool quiet);

  void show(const ProgressState& state);
  void clear();  // takes the live line away, before anything else is printed

 private:
  Mode mode_;
  bool shown_ = false;
  double next_line_ = 0;
};

}  // namespace prorata
