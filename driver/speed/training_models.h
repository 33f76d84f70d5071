// What StarPU's models say of training one network: which entry each task has at each batch size, the price of a
// mini-batch, and which entries cannot be true.
//
// Threads: the main thread, while StarPU runs. Workers are StarPU's ids.
#pragma once

#include "driver/speed/entries.h"
#include "driver/speed/record.h"
#include "models/network.h"
#include "models/replica.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace prorata {

// The batch sizes that are calibrated if nobody says which.
std::vector<std::int32_t> default_batches();
// Several lists as one, ascending, each size once.
std::vector<std::int32_t> merge_batches(std::vector<std::int32_t> a, std::span<const std::int32_t> b);

// The tasks of a network's training at several batch sizes; nothing of it ever runs.
class TrainingShapes {
 public:
  // `batches` ascending.
  TrainingShapes(Network& network, std::vector<std::int32_t> batches, Overlap overlap);

  struct Task {
    const Codelet* codelet;
    std::uint32_t footprint;
    std::int32_t where;  // as starpu_task::where: the kinds of workers that it may run on

    // What this worker has for it; nothing where the task runs elsewhere, as updates do that a device leaves to those
    // who share the parameters' memory.
    const std::vector<std::string>& implementations(int worker) const;
  };
  const std::vector<std::int32_t>& batches() const { return batches_; }
  std::size_t index_of(std::int32_t batch) const;
  // By position within the group.
  const std::vector<Task>& tasks(std::size_t batch) const { return tasks_[batch]; }

  // Calls `use` with a task like this one, to be asked about.
  void with_task(std::size_t batch, std::size_t position, const std::function<void(starpu_task*)>& use);

 private:
  std::vector<std::int32_t> batches_;
  Replica replica_;
  std::vector<std::vector<Task>> tasks_;
};

// An entry as it is known: by the first worker of its model.
struct EntryKey {
  const Codelet* codelet;
  int worker;
  unsigned implementation;
  std::uint32_t footprint;
  auto operator<=>(const EntryKey&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 is wrong here
};
EntryName name_of(const EntryKey& key);
const std::string& implementation_of(const EntryKey& key);

// Entries by key; those that StarPU does not know, or not well enough, are missing.
using Entries = std::map<EntryKey, Entry>;
Entries read_entries(const TrainingShapes& shapes);

// The fastest implementation that is known for such a task on a worker; the end where none is.
Entries::const_iterator best_entry(const Entries& entries, const TrainingShapes::Task& task, int worker);

// The seconds of a mini-batch: of each task the best implementation that is known. NaN: of a task none is.
double price(const TrainingShapes& shapes, const Entries& entries, std::size_t batch, int worker);

// An entry that cannot be true, and why.
struct Implausible {
  EntryKey key;
  std::size_t batch;     // one at which it is used
  std::size_t position;  // and where
  double seconds;
  double expected;
  std::string expected_by;  // "the calibration says", "worker 1 suggests", ...
};

// Compares each entry with what is expected of it: the calibration's median, where there is one; else the same task at
// the neighbouring batch sizes, interpolated; else the same task on another worker of its kind, in the ratio that the
// two have elsewhere. One that is off by a factor of more than kImplausible, and by enough to matter to what a
// mini-batch takes, is reported: the worst first, and without it the others are looked at again, since a wrong entry
// makes its neighbours look wrong.
std::vector<Implausible> find_implausible(const TrainingShapes& shapes, const Entries& entries,
                                          const CalibrationRecord* record);
constexpr double kImplausible = 2;
// "the performance model of dense_forward (onednn) on worker 1 at batch 64: 190.0 us, where the calibration says 85.0
// us"
std::string sentence(const TrainingShapes& shapes, const Implausible& found);

}  // namespace prorata
