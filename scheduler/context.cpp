#include "scheduler/context.h"

#include "scheduler/task_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace prorata {
namespace {

constexpr std::int64_t kEndless = std::int64_t{1} << 62;  // groups of a phase that nobody has announced
constexpr std::uint32_t kRoundPerWorker = 8;
constexpr int kUrgent = 1;  // the least priority; StarPU's default is 0

bool can_run(int worker, const prorata_group& group) {
  for (auto* task = static_cast<starpu_task*>(group.ready); task; task = task->next)
    if (!starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(worker), task, nullptr)) return false;
  return true;
}

// Whether some of its data are on their way to the worker, which would only wait for them.
bool is_waited_for(starpu_task* task, int worker) {
  if (starpu_memory_nodes_get_count() == 1) return false;
  const auto node = static_cast<int>(starpu_worker_get_memory_node(static_cast<unsigned>(worker)));
  for (unsigned b = 0; b < STARPU_TASK_GET_NBUFFERS(task); ++b) {
    if (!(STARPU_TASK_GET_MODE(task, b) & STARPU_R)) continue;
    int allocated = 0, valid = 0, requested = 0;
    starpu_data_query_status(STARPU_TASK_GET_HANDLE(task, b), node, &allocated, &valid, &requested);
    if (!valid && requested) return true;
  }
  return false;
}

}  // namespace

// Null for a task that belongs to no group. What a program keeps in sched_data may be something else: small integers,
// as one of StarPU's own components wants, are told apart before anything is read.
prorata_tag* tag_of(const starpu_task* task) {
  constexpr std::uintptr_t kFirstPage = 4096;
  const auto address = reinterpret_cast<std::uintptr_t>(task->sched_data);
  if (address < kFirstPage || address % alignof(prorata_tag) != 0) return nullptr;
  auto* tag = static_cast<prorata_tag*>(task->sched_data);
  return tag->magic == PRORATA_TAG_MAGIC ? tag : nullptr;
}

void Context::begin_phase(const prorata_phase& next) {
  phase = next;
  const std::int64_t total = announced ? static_cast<std::int64_t>(phase.groups) : kEndless;
  const std::uint32_t round =
      phase.round ? phase.round
                  : kRoundPerWorker * static_cast<std::uint32_t>(std::max<std::size_t>(1, workers.size()));
  const auto balance = phase.balance == PRORATA_UNIFORM   ? Balance::uniform
                       : phase.balance == PRORATA_DYNAMIC ? Balance::dynamic
                                                          : Balance::prorata;
  update_speeds();
  ledger->begin(balance, total, round, phase.in_steps != 0);
  sizes.reset();
  if (phase.share == PRORATA_SIZE && !workers.empty()) begin_sizes(round);
}

void Context::begin_sizes(std::uint32_t round) {
  const auto step = static_cast<std::int64_t>(workers.size()) * phase.samples;
  std::vector<std::int64_t> most;
  for (int w : workers) most.push_back(phase.most ? phase.most[w] : step);
  phase.most = nullptr;  // the caller's, and no longer needed
  sizes = std::make_unique<SizeLedger>(workers.size());
  update_speeds();
  sizes->begin(static_cast<std::int64_t>(phase.total_samples), step, std::int64_t{round} * phase.samples,
               std::move(most), phase.in_steps != 0);
}

// Before a round is opened: what is known of the workers by now.
void Context::update_speeds() {
  for (int w : workers) {
    if (std::isinf(ledger->seconds(slot(w)))) continue;
    ledger->set_seconds(slot(w), speeds.seconds({phase.kind, phase.samples}, static_cast<unsigned>(w)));
  }
  for (int w : workers) update_time(w);
  speeds.forget_prices(phase.kind);
}

void Context::update_time(int worker) {
  if (!sizes) return;
  const bool unable = std::isinf(ledger->seconds(slot(worker)));
  sizes->set_time(slot(worker),
                  unable ? TimeFunction::unable() : speeds.time(phase.kind, static_cast<unsigned>(worker)));
}

void Context::enqueue_waiting(prorata_group* group, starpu_task* task) {
  task->next = nullptr;
  if (group->ready_tail) {
    static_cast<starpu_task*>(group->ready_tail)->next = task;
  } else {
    group->ready = task;
    insert(group);
  }
  group->ready_tail = task;
}

void Context::insert(prorata_group* group) {
  const int only = group->for_worker_plus_1 - 1;
  if (only >= 0 && !at(only).member) group->for_worker_plus_1 = 0;
  std::deque<prorata_group*>& queue = group->for_worker_plus_1 > 0 ? at(only).own : waiting;
  queue.insert(std::upper_bound(queue.begin(), queue.end(), group,
                                [](auto* a, auto* b) { return a->sequence < b->sequence; }),
               group);
}

// What only this worker was to do is anybody's.
void Context::release_own(int worker) {
  for (prorata_group* group : std::exchange(at(worker).own, {})) {
    group->for_worker_plus_1 = 0;
    insert(group);
  }
}

prorata_group* Context::next_group(int worker) {
  if (!at(worker).own.empty()) {
    prorata_group* group = at(worker).own.front();
    if (can_run(worker, *group)) {
      at(worker).own.pop_front();
      return group;
    }
    ledger->exclude(slot(worker));
    update_time(worker);
    release_own(worker);
    ++events;
  }
  if (waiting.empty()) return nullptr;
  if (std::isinf(ledger->seconds(slot(worker)))) return unshared_group(worker);
  if (!ledger->may_take(slot(worker), now())) return nullptr;
  prorata_group* group = waiting.front();
  if (!can_run(worker, *group)) {
    ledger->exclude(slot(worker));
    ++events;
    return nullptr;
  }
  waiting.pop_front();
  return group;
}

// The group at the front suits none of the workers that get shares: whoever can takes it all the same, and if nobody
// can run all of it, its tasks are dealt one by one.
prorata_group* Context::unshared_group(int worker) {
  prorata_group* group = waiting.front();
  bool anybody = false;
  for (int w : workers) {
    if (!can_run(w, *group)) continue;
    if (!std::isinf(ledger->seconds(slot(w)))) return nullptr;
    anybody = true;
  }
  if (anybody && !can_run(worker, *group)) return nullptr;
  waiting.pop_front();
  if (anybody) return group;
  group->worker_plus_1 = kDealtSingly;
  for (auto* task = static_cast<starpu_task*>(group->ready); task;) {
    starpu_task* next = task->next;
    task->next = nullptr;
    deal(task, task_costs(task, sched_ctx));
    task = next;
  }
  group->ready = group->ready_tail = nullptr;
  ++events;
  return nullptr;
}

void Context::bind(prorata_group* group, int worker) {
  const double time = now();
  group->worker_plus_1 = worker + 1;
  group->started = time;
  at(worker).group = group;
  for (auto* task = static_cast<starpu_task*>(group->ready); task;) {
    starpu_task* next = task->next;
    task->next = nullptr;
    at(worker).ready.push_back(task);
    task = next;
  }
  group->ready = group->ready_tail = nullptr;
  if (group->for_worker_plus_1 == 0) ledger->take(slot(worker), time);
  at(worker).owes_single = true;
  const double seconds = speeds.seconds({group->kind, group->samples}, static_cast<unsigned>(worker));
  singles.occupy(worker, time + (std::isfinite(seconds) ? seconds : 0));
}

starpu_task* Context::take_ready(WorkerState& own) {
  const auto first = std::min_element(own.ready.begin(), own.ready.end(),
                                      [](auto* a, auto* b) { return tag_of(a)->position < tag_of(b)->position; });
  if (first == own.ready.end()) return nullptr;
  starpu_task* task = *first;
  own.ready.erase(first);
  return task;
}

int Context::deal(starpu_task* task, std::vector<TaskCost> costs) {
  const double time = now();
  const int worker = singles.choose(costs, task->priority, time);
  queue(worker, task, std::move(costs), time);
  return worker;
}

void Context::queue(int worker, starpu_task* task, std::vector<TaskCost> costs, double time) {
  if (std::all_of(costs.begin(), costs.end(), [](const TaskCost& c) { return std::isinf(c.seconds); })) {
    singles.finish(task, time);
    stranded.push_back(task);
  } else {
    if (worker != SingleTasks::kCommon) {
      const TaskCost& cost = costs[static_cast<std::size_t>(worker)];
      task->predicted = cost.seconds * 1e6;
      task->predicted_transfer = cost.transfer * 1e6;
    }
    singles.push(worker, task, task->priority, std::move(costs), time);
  }
  note_queues();
}

starpu_task* Context::take_urgent(int worker) {
  if (!at(worker).member) return nullptr;
  starpu_task* task = singles.first(worker, kUrgent);
  if (!task || is_waited_for(task, worker)) return nullptr;
  singles.pop(worker, now());
  note_queues();
  return task;
}

starpu_task* Context::take_single(int worker, bool idle) {
  at(worker).owes_single = false;
  const double time = now();
  starpu_task* task = at(worker).member ? singles.first(worker) : nullptr;
  if (task && !idle && is_waited_for(task, worker)) return nullptr;
  if (task) singles.pop(worker, time);
  if (!task && !stranded.empty()) task = take_stranded(worker);
  if (!task && idle && at(worker).member) task = singles.steal(worker, time);
  note_queues();
  return task;
}

starpu_task* Context::take_stranded(int worker) {
  for (auto it = stranded.begin(); it != stranded.end(); ++it)
    if (starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(worker), *it, nullptr)) {
      starpu_task* task = *it;
      stranded.erase(it);
      return task;
    }
  return nullptr;
}

void Context::note_queues() {
  time_matters.store(singles.dealt() != 0 || !stranded.empty(), std::memory_order_relaxed);
}

void Context::follow_workers() {
  std::vector<int> present;
  starpu_worker_collection* collection = starpu_sched_ctx_get_worker_collection(sched_ctx);
  starpu_sched_ctx_iterator it;
  collection->init_iterator(collection, &it);
  while (collection->has_next(collection, &it))
    if (const int w = collection->get_next(collection, &it); w < static_cast<int>(starpu_worker_get_count()))
      present.push_back(w);
  change_workers(std::move(present));
  known_workers = starpu_sched_ctx_get_nworkers(sched_ctx);
}

void Context::change_workers(std::vector<int> present) {
  std::vector<starpu_task*> tasks = singles.take_all();
  tasks.insert(tasks.end(), stranded.begin(), stranded.end());
  stranded.clear();
  const double time = now();
  for (int w : workers) {
    if (std::find(present.begin(), present.end(), w) != present.end()) continue;
    WorkerState& gone = at(w);
    tasks.insert(tasks.end(), gone.ready.begin(), gone.ready.end());
    gone.ready.clear();
    if (gone.group) singles.release(w, time);
    gone.group = nullptr;
    gone.member = false;
    release_own(w);
  }
  for (int w : present) at(w).member = true;
  set_workers(std::move(present));
  for (starpu_task* task : tasks) deal(task, task_costs(task, sched_ctx));
  ++events;
}

void Context::set_workers(std::vector<int> ids) {
  std::sort(ids.begin(), ids.end());
  workers = std::move(ids);
  known_workers = static_cast<unsigned>(workers.size());
  for (std::size_t i = 0; i < workers.size(); ++i) index[static_cast<std::size_t>(workers[i])] = static_cast<int>(i);
  auto old = std::move(ledger);
  ledger = std::make_unique<Ledger>(workers.size());
  begin_phase(phase);
}

}  // namespace prorata
