// StarPU's performance models of our codelets, entry by entry: reading, writing, taking out.
//
// A history model keeps, for each kind of device and each implementation, one entry a footprint (the hash of a task's
// shape, codelets/codelet.h). StarPU has no call to set or to clear one, but hands out the live list through
// starpu_perfmodel_get_model_per_arch; what is done to it here is what StarPU itself does when it flushes an entry.
//
// Threads: the main thread, while no task is in flight and StarPU runs.
#pragma once

#include "codelets/codelet.h"

#include <starpu.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace prorata {

struct Entry {
  double seconds;
  unsigned measurements;  // as StarPU counts them
};

// StarPU uses an entry only from so many measurements on (STARPU_CALIBRATE_MINIMUM).
unsigned enough_measurements();

// CPU workers share one model unless STARPU_PERF_MODEL_HOMOGENEOUS_CPU=0. The first worker that uses the same models
// as this one, and a name for them that is the same in every run, as "cpu0".
int model_of(int worker);
std::string model_name(int worker);

// The models as they are in their files. Nothing is measured and nothing is written: asking StarPU itself for an entry
// that is missing would make it record from then on, and write at the end.
class ModelFiles {
 public:
  ModelFiles();
  ~ModelFiles();
  ModelFiles(const ModelFiles&) = delete;
  ModelFiles& operator=(const ModelFiles&) = delete;

  // None where StarPU would not use it either.
  std::optional<Entry> find(const Codelet& codelet, int worker, unsigned implementation, std::uint32_t footprint) const;

 private:
  std::map<const Codelet*, std::unique_ptr<starpu_perfmodel>> models_;
};

const Codelet& codelet_of(const starpu_task* task);
std::uint32_t footprint_of(starpu_task* task);

// Sets the live entry for such a task (it need not be submitted) to this time, as if it had been measured so often each
// time; what was there is gone. The implementations of a codelet are to be set in ascending order, or StarPU does not
// write the later ones. StarPU writes the models when it shuts down.
void set_entry(starpu_task* task, int worker, unsigned implementation, const Entry& entry);

// Takes the live entry out and has StarPU measure such tasks from now on.
void forget_entry(starpu_task* task, int worker, unsigned implementation);

}  // namespace prorata
