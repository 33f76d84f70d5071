#include "codelets/codelet.h"

#include "codelets/backend/cpu_worker.h"
#include "codelets/backend/kernel_error.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <iterator>
#include <mutex>
#include <new>
#include <stdexcept>

namespace prorata {
namespace {

std::atomic<bool> only_first_implementation{false};

std::mutex error_mutex;
std::exception_ptr first_error;
std::atomic<bool> failed{false};

std::vector<const Codelet*>& registry() {
  static std::vector<const Codelet*> codelets;
  return codelets;
}

std::array<std::atomic<bool>, STARPU_NMAXWORKERS> left_out{};

// What the calling thread does for StarPU, as "dense_forward on OpenCL 0 (...)"; of a task that is no codelet's of
// ours, the worker only.
std::string place_of(int worker) {
  char name[64];
  starpu_worker_get_name(worker, name, sizeof(name));
  const starpu_task* task = starpu_task_get_current();
  for (const Codelet* codelet : registry())
    if (task && task->cl == codelet->starpu()) return codelet->name() + " on " + name;
  return name;
}

// The exception in flight, with the device and the codelet that it comes from, where a worker has it.
std::exception_ptr current_error_with_place() {
  const int worker = starpu_worker_get_id();
  if (worker < 0) return std::current_exception();
  try {
    throw;
  } catch (const std::bad_alloc&) {  // it has a sentence of its own
    return std::current_exception();
  } catch (const std::exception& e) {
    return std::make_exception_ptr(std::runtime_error(place_of(worker) + ": " + e.what()));
  }
}

int may_run(unsigned worker, starpu_task* /*task*/, unsigned implementation) {
  if (left_out[worker].load(std::memory_order_relaxed)) return 0;
  return implementation == 0 || !only_first_implementation.load(std::memory_order_relaxed);
}

}  // namespace

template <class Implementation, class Function>
void Codelet::offer(starpu_worker_archtype kind, std::uint32_t where, const std::vector<Implementation>& all,
                    Function* functions) {
  if (all.size() > STARPU_MAXIMPLEMENTATIONS)
    throw std::logic_error("codelet " + name_ + " has more implementations than StarPU was built for");
  if (all.empty()) return;
  codelet_.where |= where;
  for (std::size_t i = 0; i < all.size(); ++i) {
    functions[i] = all[i].run;
    names_[kind].emplace_back(all[i].name);
  }
}

Codelet::Codelet(const char* name, std::vector<starpu_data_access_mode> modes, Footprint footprint,
                 std::vector<CpuImplementation> cpu, DeviceImplementations devices)
    : name_(name), symbol_("prorata_" + name_), cpu_(std::move(cpu)), devices_(std::move(devices)) {
  if (modes.size() > STARPU_NMAXBUFS)
    throw std::logic_error("codelet " + name_ + " has more buffers than StarPU was built for");

  model_.type = STARPU_HISTORY_BASED;
  model_.symbol = symbol_.c_str();
  model_.footprint = footprint.hash;
  model_.size_base = footprint.samples;

  starpu_codelet_init(&codelet_);
  codelet_.name = name_.c_str();
  codelet_.can_execute = may_run;
  codelet_.model = &model_;
  codelet_.nbuffers = static_cast<int>(modes.size());
  std::copy(modes.begin(), modes.end(), codelet_.modes);
  offer(STARPU_CPU_WORKER, STARPU_CPU, cpu_, codelet_.cpu_funcs);
#if defined(PRORATA_OPENCL)
  offer(STARPU_OPENCL_WORKER, STARPU_OPENCL, devices_.opencl, codelet_.opencl_funcs);
  std::fill(std::begin(codelet_.opencl_flags), std::end(codelet_.opencl_flags), STARPU_OPENCL_ASYNC);
#endif
#if defined(PRORATA_CUDA)
  offer(STARPU_CUDA_WORKER, STARPU_CUDA, devices_.cuda, codelet_.cuda_funcs);
  std::fill(std::begin(codelet_.cuda_flags), std::end(codelet_.cuda_flags), STARPU_CUDA_ASYNC);
#endif

  registry().push_back(this);
}

const std::vector<std::string>& Codelet::implementations(starpu_worker_archtype kind) const {
  static const std::vector<std::string> none;
  const auto found = names_.find(kind);
  return found == names_.end() ? none : found->second;
}

const std::vector<const Codelet*>& Codelet::all() { return registry(); }

void use_first_implementations(bool only_first) { only_first_implementation = only_first; }

void leave_out_worker(int worker, bool out) { left_out.at(static_cast<std::size_t>(worker)) = out; }

bool kernel_failed() { return failed.load(std::memory_order_acquire); }

void rethrow_kernel_error() {
  std::exception_ptr error;
  {
    std::lock_guard lock(error_mutex);
    std::swap(error, first_error);
    failed = false;
  }
  if (error) std::rethrow_exception(error);
}

void keep_current_kernel_error() {
  const std::exception_ptr error = current_error_with_place();
  std::lock_guard lock(error_mutex);
  if (!first_error) first_error = error;
  failed.store(true, std::memory_order_release);
}

namespace detail {

void run_on_cpu_worker(void (*kernel)(void* buffers[], const void* args), void* buffers[], const void* args) {
  CpuWorkerClock clock;
  keep_kernel_error([&] { kernel(buffers, args); });
}

}  // namespace detail
}  // namespace prorata
