// SIGINT and SIGTERM as a wish to stop: the run ends cleanly with what is done so far.
#pragma once

namespace prorata {

// While it lives, the first signal is only noted; a second one of the same kind ends the program at once.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The number of the signal that came, or 0. May be asked from any thread.
  static int caught();
};

}  // namespace prorata
