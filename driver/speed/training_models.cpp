#include "driver/speed/training_models.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace prorata {
namespace {

constexpr double kNothing = __builtin_nan("");
constexpr double kMatters = 0.05;         // of what a mini-batch takes
constexpr double kTaskOverhead = 5e-6;    // seconds of StarPU's own for a task, about, which no model knows
constexpr std::size_t kEnoughRatios = 5;  // that two workers' entries have to each other

double off_by(double seconds, double expected) { return std::max(seconds / expected, expected / seconds); }

// One task's entries over the batch sizes, on one worker by one implementation; NaN where there is none.
using Series = std::vector<double>;

// What its neighbours say of item i. Between two the logarithms are interpolated, for times are nearly a constant plus
// a multiple of the batch. At an end one neighbour says only that the time lies between equal and proportional.
double expected_of_neighbours(const Series& seconds, std::span<const std::int32_t> batches, std::size_t i) {
  const auto known = [&](std::size_t k) { return !std::isnan(seconds[k]); };
  std::size_t below = i, above = i;
  while (below > 0 && (below == i || !known(below))) --below;
  while (above + 1 < seconds.size() && (above == i || !known(above))) ++above;
  const bool has_below = below != i && known(below), has_above = above != i && known(above);
  const auto x = [&](std::size_t k) { return std::log(static_cast<double>(batches[k])); };
  if (has_below && has_above) {
    const double part = (x(i) - x(below)) / (x(above) - x(below));
    return std::exp((1 - part) * std::log(seconds[below]) + part * std::log(seconds[above]));
  }
  if (!has_below && !has_above) return kNothing;
  const std::size_t k = has_below ? below : above;
  const double proportional = seconds[k] * batches[i] / batches[k];
  return std::clamp(seconds[i], std::min(seconds[k], proportional), std::max(seconds[k], proportional));
}

class Judge {
 public:
  Judge(const TrainingShapes& shapes, const Entries& entries, const CalibrationRecord* record)
      : shapes_(shapes), trusted_(entries), record_(record) {}

  std::vector<Implausible> run() {
    std::vector<Implausible> found;
    while (const auto worst = find_worst()) {
      trusted_.erase(worst->key);
      found.push_back(*worst);
    }
    return found;
  }

 private:
  std::optional<Implausible> find_worst() {
    std::optional<Implausible> worst;
    for (std::size_t b = 0; b < shapes_.batches().size(); ++b)
      for (std::size_t p = 0; p < shapes_.tasks(b).size(); ++p)
        for (const auto& [key, entry] : entries_of(b, p)) {
          Implausible candidate = judge(key, entry, b, p);
          if (std::isnan(candidate.expected) || off_by(entry.seconds, candidate.expected) <= kImplausible) continue;
          if (worst && off_by(worst->seconds, worst->expected) >= off_by(entry.seconds, candidate.expected)) continue;
          if (matters(candidate)) worst = std::move(candidate);
        }
    return worst;
  }

  // On every worker, by every implementation.
  std::vector<std::pair<EntryKey, Entry>> entries_of(std::size_t b, std::size_t p) const {
    const TrainingShapes::Task& task = shapes_.tasks(b)[p];
    std::vector<std::pair<EntryKey, Entry>> result;
    for (auto it = trusted_.lower_bound({task.codelet, 0, 0, 0});
         it != trusted_.end() && it->first.codelet == task.codelet; ++it)
      if (it->first.footprint == task.footprint) result.push_back(*it);
    return result;
  }

  Implausible judge(const EntryKey& key, const Entry& entry, std::size_t b, std::size_t p) const {
    Implausible result{key, b, p, entry.seconds, kNothing, ""};
    if (record_)
      if (const auto known = record_->entries.find(name_of(key)); known != record_->entries.end()) {
        result.expected = known->second.seconds;
        result.expected_by = "the calibration says";
        return result;
      }
    result.expected = by_neighbours(key, b, p);
    result.expected_by = "its other batch sizes suggest";
    if (std::isnan(result.expected)) {
      result.expected = by_other_workers(key, result.expected_by);
    }
    return result;
  }

  double by_neighbours(const EntryKey& key, std::size_t b, std::size_t p) const {
    Series seconds;
    for (std::size_t k = 0; k < shapes_.batches().size(); ++k) {
      EntryKey other = key;
      other.footprint = shapes_.tasks(k)[p].footprint;
      const auto found = trusted_.find(other);
      // A task that does not depend on the batch has one entry, which is no witness for itself.
      const bool counts = found != trusted_.end() && (k == b || other.footprint != key.footprint);
      seconds.push_back(counts ? found->second.seconds : kNothing);
    }
    return expected_of_neighbours(seconds, shapes_.batches(), b);
  }

  double by_other_workers(const EntryKey& key, std::string& who) const {
    for (int w = 0; w < static_cast<int>(starpu_worker_get_count()); ++w) {
      if (w == key.worker || w != model_of(w) || starpu_worker_get_type(w) != starpu_worker_get_type(key.worker))
        continue;
      EntryKey other = key;
      other.worker = w;
      const auto there = trusted_.find(other);
      if (there == trusted_.end()) continue;
      std::vector<double> ratios;
      for (const auto& [k, entry] : trusted_) {
        EntryKey twin = k;
        twin.worker = w;
        const auto on_other = trusted_.find(twin);
        if (k.worker == key.worker && k != key && on_other != trusted_.end())
          ratios.push_back(entry.seconds / on_other->second.seconds);
      }
      if (ratios.size() < kEnoughRatios) continue;
      std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
      who = "worker " + std::to_string(w) + " suggests";
      return there->second.seconds * ratios[ratios.size() / 2];
    }
    return kNothing;
  }

  bool matters(const Implausible& c) const {
    Entries mended = trusted_;
    mended[c.key].seconds = c.expected;
    const double whole = price(shapes_, mended, c.batch, c.key.worker);
    const double at_least = std::isnan(whole) ? std::max(c.seconds, c.expected) : whole;
    const double overhead = kTaskOverhead * static_cast<double>(shapes_.tasks(c.batch).size());
    return std::abs(c.seconds - c.expected) > kMatters * (at_least + overhead);
  }

  const TrainingShapes& shapes_;
  Entries trusted_;
  const CalibrationRecord* record_;
};

}  // namespace

std::vector<std::int32_t> default_batches() { return {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512}; }

std::vector<std::int32_t> merge_batches(std::vector<std::int32_t> a, std::span<const std::int32_t> b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

TrainingShapes::TrainingShapes(Network& network, std::vector<std::int32_t> batches, Overlap overlap)
    : batches_(std::move(batches)), replica_(network, batches_.back(), overlap, [](Replica&) {}) {
  for (std::int32_t batch : batches_) {
    const std::vector<std::uint32_t> indices(static_cast<std::size_t>(batch));
    const TaskList list = replica_.training_tasks({}, indices);
    std::vector<Task>& tasks = tasks_.emplace_back();
    for (starpu_task* task : list.tasks()) tasks.push_back({&codelet_of(task), footprint_of(task), task->where});
  }
}

const std::vector<std::string>& TrainingShapes::Task::implementations(int worker) const {
  static const std::vector<std::string> none;
  const starpu_worker_archtype kind = starpu_worker_get_type(worker);
  const std::uint32_t mask = kind == STARPU_CPU_WORKER    ? STARPU_CPU
                             : kind == STARPU_CUDA_WORKER ? STARPU_CUDA
                                                          : STARPU_OPENCL;
  return where != -1 && !(static_cast<std::uint32_t>(where) & mask) ? none : codelet->implementations(kind);
}

std::size_t TrainingShapes::index_of(std::int32_t batch) const {
  return static_cast<std::size_t>(std::lower_bound(batches_.begin(), batches_.end(), batch) - batches_.begin());
}

void TrainingShapes::with_task(std::size_t batch, std::size_t position, const std::function<void(starpu_task*)>& use) {
  const std::vector<std::uint32_t> indices(static_cast<std::size_t>(batches_[batch]));
  use(replica_.training_tasks({}, indices).tasks()[position]);
}

const std::string& implementation_of(const EntryKey& key) {
  return key.codelet->implementations(starpu_worker_get_type(key.worker))[key.implementation];
}

EntryName name_of(const EntryKey& key) {
  return {key.codelet->name(), model_name(key.worker), implementation_of(key), key.footprint};
}

Entries read_entries(const TrainingShapes& shapes) {
  const ModelFiles files;
  Entries entries;
  for (int w = 0; w < static_cast<int>(starpu_worker_get_count()); ++w) {
    if (model_of(w) != w) continue;
    for (std::size_t b = 0; b < shapes.batches().size(); ++b)
      for (const TrainingShapes::Task& task : shapes.tasks(b))
        for (unsigned i = 0; i < task.implementations(w).size(); ++i)
          if (const auto entry = files.find(*task.codelet, w, i, task.footprint))
            entries.emplace(EntryKey{task.codelet, w, i, task.footprint}, *entry);
  }
  return entries;
}

Entries::const_iterator best_entry(const Entries& entries, const TrainingShapes::Task& task, int worker) {
  auto best = entries.end();
  for (unsigned i = 0; i < task.implementations(worker).size(); ++i) {
    const auto found = entries.find({task.codelet, model_of(worker), i, task.footprint});
    if (found != entries.end() && (best == entries.end() || found->second.seconds < best->second.seconds)) best = found;
  }
  return best;
}

double price(const TrainingShapes& shapes, const Entries& entries, std::size_t batch, int worker) {
  double sum = 0;
  for (const TrainingShapes::Task& task : shapes.tasks(batch)) {
    if (task.implementations(worker).empty()) continue;
    const auto best = best_entry(entries, task, worker);
    sum += best == entries.end() ? kNothing : best->second.seconds;
  }
  return sum;
}

std::vector<Implausible> find_implausible(const TrainingShapes& shapes, const Entries& entries,
                                          const CalibrationRecord* record) {
  return Judge(shapes, entries, record).run();
}

std::string sentence(const TrainingShapes& shapes, const Implausible& found) {
  char text[300];
  std::snprintf(text, sizeof(text),
                "the performance model of %s (%s) on worker %d at batch %d: %.1f us, where %s %.1f us",
                found.key.codelet->name().c_str(), implementation_of(found.key).c_str(), found.key.worker,
                shapes.batches()[found.batch], found.seconds * 1e6, found.expected_by.c_str(), found.expected * 1e6);
  return text;
}

}  // namespace prorata
