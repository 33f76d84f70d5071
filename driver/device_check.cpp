#include "driver/device_check.h"

#include "codelets/backend/device_workers.h"
#include "codelets/codelet.h"
#include "codelets/conv2d.h"
#include "driver/report/log.h"
#include "models/errors.h"
#include "models/replica.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace prorata {
namespace {

bool is_device(unsigned worker) { return starpu_worker_get_type(static_cast<int>(worker)) != STARPU_CPU_WORKER; }

std::string name_of(unsigned worker) {
  char name[64];
  starpu_worker_get_name(static_cast<int>(worker), name, sizeof(name));
  return name;
}

// Of the implementations that the task with most of them has on the worker.
unsigned implementations_on(unsigned worker, const TaskList& list) {
  const auto has = [&](unsigned i) {
    return std::any_of(list.tasks().begin(), list.tasks().end(),
                       [&](starpu_task* task) { return starpu_worker_can_execute_task(worker, task, i) != 0; });
  };
  unsigned count = 0;
  while (count < STARPU_MAXIMPLEMENTATIONS && has(count)) ++count;
  return count;
}

// Runs the tasks on the worker, by their implementation of this number where they have one, and waits for them.
void run_on(unsigned worker, const TaskList& list, unsigned implementation) {
  for (starpu_task* task : list.tasks()) {
    task->execute_on_a_specific_worker = 1;
    task->workerid = worker;
    if (starpu_worker_can_execute_task(worker, task, implementation))
      starpu_task_set_implementation(task, implementation);
    submit_task(task);
  }
  starpu_task_wait_for_all();
}

std::string mebibytes(std::size_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

// Of the memory of the worker's device; none where it has no bound, or is main memory.
std::optional<std::size_t> room_on(unsigned worker) {
  const unsigned node = starpu_worker_get_memory_node(worker);
  if (node == STARPU_MAIN_RAM) return std::nullopt;
  std::optional<std::size_t> room = free_device_memory(static_cast<int>(worker));
  if (const starpu_ssize_t total = starpu_memory_get_total(node); total >= 0)  // as StarPU's limits leave it
    room = std::min(room.value_or(SIZE_MAX), static_cast<std::size_t>(total));
  return room;
}

}  // namespace

std::size_t device_bytes(const Network& network, const Dataset& data, std::int32_t batch,
                         const Preprocessing& preprocessing) {
  constexpr std::size_t kMinibatches = 2;
  const Replica::Bytes of_one = Replica::bytes(network, preprocessing);
  return data.train.bytes() + data.test.bytes() + network.parameter_count() * sizeof(float) + kConv2dWorkspace +
         kMinibatches * (of_one.fixed + of_one.per_sample * static_cast<std::size_t>(batch));
}

void leave_out_devices_without_room(const Network& network, const Dataset& data, std::int32_t batch,
                                    const Preprocessing& preprocessing) {
  const std::size_t needed = device_bytes(network, data, batch, preprocessing);
  const unsigned workers = starpu_worker_get_count();
  unsigned left_out = 0;
  std::string last;
  for (unsigned w = 0; w < workers; ++w) {
    const std::optional<std::size_t> room = room_on(w);
    const bool enough = !room || *room >= needed;
    leave_out_worker(static_cast<int>(w), !enough);
    if (enough) continue;
    last = name_of(w) + " has " + mebibytes(*room) + " of memory; " + network.spec().name +
           " with this data set needs " + mebibytes(needed) + " at batch " + std::to_string(batch);
    if (++left_out < workers) log_warning(last + ". It is left out; a smaller --batch may let it take part");
  }
  if (left_out == workers)
    throw InputError(last + ", and there is no other worker: use a smaller --batch, or a CPU worker (STARPU_NCPU)");
}

void try_devices(Network& network, const DataSource& data, std::int32_t batch, const Preprocessing& preprocessing) {
  const std::vector<std::uint32_t> indices(static_cast<std::size_t>(batch));  // one sample, many times
  const unsigned workers = starpu_worker_get_count();
  unsigned able = 0;
  for (unsigned w = 0; w < workers; ++w) {
    Replica replica(
        network, batch, Overlap::possible, [](Replica&) {}, Update::later, {}, preprocessing);
    unsigned implementations = 0;
    {
      const TaskList list = replica.training_tasks(data, indices);
      if (!starpu_worker_can_execute_task_first_impl(w, list.tasks().front(), nullptr)) continue;
      ++able;
      if (!is_device(w)) continue;
      implementations = implementations_on(w, list);
      run_on(w, list, 0);
    }
    for (unsigned i = 1; i < implementations; ++i) run_on(w, replica.training_tasks(data, indices), i);
    try {
      rethrow_kernel_error();
    } catch (const std::exception& e) {
      leave_out_worker(static_cast<int>(w), true);
      --able;
      log_warning("one device cannot compute a mini-batch of " + std::to_string(batch) + ": " + e.what() +
                  ". It is left out");
    }
  }
  if (able == 0)
    throw std::runtime_error("no device can compute a mini-batch of " + std::to_string(batch) +
                             "; use a smaller --batch, or a CPU worker (STARPU_NCPU)");
}

}  // namespace prorata
