// What a CPU worker keeps about itself: how long it has been in kernels, and how much slower than it is
// the user wants it to be (`--slowdown`, to emulate unlike devices).
//
// Threads. Each worker writes only its own slot, from its own thread; the other functions are for the
// main thread while no task is in flight. Workers are StarPU's worker ids; a thread that is no worker
// (a test that calls a kernel directly) is not accounted.
#pragma once

#include <chrono>

namespace prorata {

// Prepares the calling StarPU process for kernels on CPU workers: every worker runs the BLAS libraries on
// its own thread only, for the workers are the parallelism. Call once after starpu_init().
void init_cpu_workers();

// From now on every kernel of `worker` takes `factor` times as long (>= 1; 1 switches it off). For the rest of the time
// the worker sleeps, but for its last part: the slow device that it stands for takes nothing from the others. Time in
// which others had its core, as they may where there are more threads than cores, is no work and is not multiplied.
void set_cpu_slowdown(int worker, double factor);
double cpu_slowdown(int worker);

// Seconds that `worker` has spent in kernels since the last reset.
double cpu_busy_seconds(int worker);
void reset_cpu_busy_seconds();

// Scope of one kernel on the calling worker.
class CpuWorkerClock {
 public:
  CpuWorkerClock();
  ~CpuWorkerClock();
  CpuWorkerClock(const CpuWorkerClock&) = delete;
  CpuWorkerClock& operator=(const CpuWorkerClock&) = delete;

 private:
  int worker_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::nanoseconds cpu_start_{};  // of the thread; where the worker is slowed
};

}  // namespace prorata
