#include "driver/speed/entries.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace prorata {
namespace {

starpu_perfmodel_arch* arch_of(int worker) { return starpu_worker_get_perf_archtype(worker, 0); }

starpu_perfmodel_history_entry* find_entry(starpu_perfmodel* model, int worker, unsigned implementation,
                                           std::uint32_t footprint) {
  const starpu_perfmodel_per_arch* of_arch =
      starpu_perfmodel_get_model_per_arch(model, arch_of(worker), implementation);
  if (!of_arch) return nullptr;
  for (const starpu_perfmodel_history_list* link = of_arch->list; link; link = link->next)
    if (link->entry->footprint == footprint) return link->entry;
  return nullptr;
}

void clear(starpu_perfmodel_history_entry& entry) {
  entry.mean = entry.deviation = entry.sum = entry.sum2 = 0;
  entry.nsample = entry.nerror = 0;
}

}  // namespace

unsigned enough_measurements() {
  const char* set = std::getenv("STARPU_CALIBRATE_MINIMUM");
  return set && *set ? static_cast<unsigned>(std::max(1l, std::strtol(set, nullptr, 10))) : 10;
}

int model_of(int worker) {
  const starpu_perfmodel_arch* own = arch_of(worker);
  const int combination = starpu_perfmodel_arch_comb_add(own->ndevices, own->devices);
  for (int w = 0; w < worker; ++w) {
    const starpu_perfmodel_arch* other = arch_of(w);
    if (starpu_perfmodel_arch_comb_get(other->ndevices, other->devices) == combination) return w;
  }
  return worker;
}

std::string model_name(int worker) {
  const int first = model_of(worker);
  const char* kind = "other";
  switch (starpu_worker_get_type(first)) {
    case STARPU_CPU_WORKER: kind = "cpu"; break;
    case STARPU_CUDA_WORKER: kind = "cuda"; break;
    case STARPU_OPENCL_WORKER: kind = "opencl"; break;
    default: break;
  }
  return kind + std::to_string(starpu_worker_get_devid(first));
}

ModelFiles::ModelFiles() {
  for (const Codelet* codelet : Codelet::all()) {
    const char* symbol = codelet->starpu()->model->symbol;
    char path[256];  // StarPU's own length
    starpu_perfmodel_get_model_path(symbol, path, sizeof(path));
    if (::access(path, R_OK) != 0) continue;
    auto model = std::make_unique<starpu_perfmodel>();
    if (starpu_perfmodel_load_symbol(symbol, model.get()) == 0) models_.emplace(codelet, std::move(model));
  }
}

ModelFiles::~ModelFiles() {
  for (auto& [codelet, model] : models_) starpu_perfmodel_unload_model(model.get());
}

std::optional<Entry> ModelFiles::find(const Codelet& codelet, int worker, unsigned implementation,
                                      std::uint32_t footprint) const {
  const auto model = models_.find(&codelet);
  if (model == models_.end()) return std::nullopt;
  const starpu_perfmodel_history_entry* entry = find_entry(model->second.get(), worker, implementation, footprint);
  if (!entry || entry->nsample < enough_measurements()) return std::nullopt;
  return Entry{entry->mean * 1e-6, entry->nsample};
}

const Codelet& codelet_of(const starpu_task* task) {
  for (const Codelet* codelet : Codelet::all())
    if (codelet->starpu() == task->cl) return *codelet;
  throw std::logic_error(std::string("no codelet of ours: ") + task->cl->name);
}

std::uint32_t footprint_of(starpu_task* task) { return task->cl->model->footprint(task); }

void set_entry(starpu_task* task, int worker, unsigned implementation, const Entry& entry) {
  starpu_perfmodel* model = task->cl->model;
  const auto add = [&] {
    starpu_perfmodel_update_history(model, task, arch_of(worker), 0, implementation, entry.seconds * 1e6);
  };
  add();  // makes the entry; StarPU leaves a first measurement out
  clear(*find_entry(model, worker, implementation, footprint_of(task)));
  for (unsigned i = 0; i < std::max(entry.measurements, enough_measurements()); ++i) add();
}

void forget_entry(starpu_task* task, int worker, unsigned implementation) {
  starpu_task_expected_length(task, arch_of(worker), implementation);  // has StarPU load the model
  if (auto* entry = find_entry(task->cl->model, worker, implementation, footprint_of(task))) clear(*entry);
  starpu_task_expected_length(task, arch_of(worker), implementation);  // has it see that it must measure, and write
}

}  // namespace prorata
