// The StarPU scheduling policy `prorata`. scheduler/prorata.h has its contract.
//
// Concurrency. One mutex guards a scheduling context's state. It is held for list operations and, once a round, for
// pricing; no StarPU function that could call the policy again is called under it. StarPU spins on pop_task while a
// worker is idle, so an idle worker that found nothing looks at an atomic counter (`events`) first and takes the
// lock only when something has happened since.
#include "scheduler/policy.h"

#include "scheduler/ledger.h"
#include "scheduler/speed.h"

#include <starpu_scheduler.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace prorata {
namespace {

constexpr std::int64_t kEndless = std::int64_t{1} << 62;  // groups of a phase that nobody has announced
constexpr std::uint32_t kRoundPerWorker = 8;

double now() { return starpu_timing_now() * 1e-6; }

prorata_tag* tag_of(const starpu_task* task) { return static_cast<prorata_tag*>(task->sched_data); }

struct Lock {
  // Relaxed while waiting: another worker may hold the mutex and want this one to be out of its scheduling state.
  explicit Lock(starpu_pthread_mutex_t& m) : mutex(m) {
    if (starpu_pthread_mutex_trylock(&mutex) == 0) return;
    starpu_worker_relax_on();
    starpu_pthread_mutex_lock(&mutex);
    starpu_worker_relax_off();
  }
  ~Lock() { starpu_pthread_mutex_unlock(&mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  starpu_pthread_mutex_t& mutex;
};

struct WorkerState {
  prorata_group* group = nullptr;   // bound and not finished
  std::vector<starpu_task*> ready;  // of that group
  std::uint64_t seen_events = 0;    // the counter when it last found nothing
};

struct Policy {
  explicit Policy(unsigned ctx) : sched_ctx(ctx) { starpu_pthread_mutex_init(&mutex, nullptr); }
  ~Policy() { starpu_pthread_mutex_destroy(&mutex); }
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  const unsigned sched_ctx;
  starpu_pthread_mutex_t mutex;
  std::atomic<std::uint64_t> events{1};

  std::vector<int> workers;  // of the context, ascending
  std::array<int, STARPU_NMAXWORKERS> index{};
  std::array<WorkerState, STARPU_NMAXWORKERS> state;
  std::deque<prorata_group*> waiting;                          // not bound, by sequence
  std::multimap<int, starpu_task*, std::greater<>> ungrouped;  // by priority

  prorata_phase phase{};
  bool announced = false;
  std::unique_ptr<Ledger> ledger = std::make_unique<Ledger>(0);
  Speeds speeds;

  std::size_t slot(int worker) const { return static_cast<std::size_t>(index[static_cast<std::size_t>(worker)]); }
  WorkerState& at(int worker) { return state[static_cast<std::size_t>(worker)]; }

  void begin_phase(const prorata_phase& next) {
    phase = next;
    const std::int64_t total = announced ? static_cast<std::int64_t>(phase.groups) : kEndless;
    const std::uint32_t round =
        phase.round ? phase.round
                    : kRoundPerWorker * static_cast<std::uint32_t>(std::max<std::size_t>(1, workers.size()));
    const auto balance = phase.balance == PRORATA_UNIFORM   ? Balance::uniform
                         : phase.balance == PRORATA_DYNAMIC ? Balance::dynamic
                                                            : Balance::prorata;
    update_speeds();
    ledger->begin(balance, total, round);
  }

  // Before a round is opened: what is known of the workers by now.
  void update_speeds() {
    for (int w : workers) {
      if (std::isinf(ledger->seconds(slot(w)))) continue;
      ledger->set_seconds(slot(w), speeds.seconds({phase.kind, phase.samples}, static_cast<unsigned>(w)));
    }
    speeds.forget_price({phase.kind, phase.samples});
  }

  void set_workers(std::vector<int> ids) {
    std::sort(ids.begin(), ids.end());
    workers = std::move(ids);
    for (std::size_t i = 0; i < workers.size(); ++i) index[static_cast<std::size_t>(workers[i])] = static_cast<int>(i);
    auto old = std::move(ledger);
    ledger = std::make_unique<Ledger>(workers.size());
    begin_phase(phase);
  }

  void enqueue_waiting(prorata_group* group, starpu_task* task) {
    task->next = nullptr;
    if (group->ready_tail) {
      static_cast<starpu_task*>(group->ready_tail)->next = task;
    } else {
      group->ready = task;
      const auto place = std::upper_bound(waiting.begin(), waiting.end(), group,
                                          [](auto* a, auto* b) { return a->sequence < b->sequence; });
      waiting.insert(place, group);
    }
    group->ready_tail = task;
  }

  void bind(prorata_group* group, int worker) {
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
    ledger->take(slot(worker), time);
  }

  // The next group for a free worker, or null.
  prorata_group* next_group(int worker) {
    if (waiting.empty() || !ledger->may_take(slot(worker), now())) return nullptr;
    prorata_group* group = waiting.front();
    for (auto* task = static_cast<starpu_task*>(group->ready); task; task = task->next)
      if (!starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(worker), task, nullptr)) {
        ledger->exclude(slot(worker));
        return nullptr;
      }
    waiting.pop_front();
    return group;
  }

  starpu_task* take_ready(WorkerState& own) {
    const auto first = std::min_element(own.ready.begin(), own.ready.end(),
                                        [](auto* a, auto* b) { return tag_of(a)->position < tag_of(b)->position; });
    if (first == own.ready.end()) return nullptr;
    starpu_task* task = *first;
    own.ready.erase(first);
    return task;
  }

  starpu_task* take_ungrouped(int worker) {
    for (auto it = ungrouped.begin(); it != ungrouped.end(); ++it)
      if (starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(worker), it->second, nullptr)) {
        starpu_task* task = it->second;
        ungrouped.erase(it);
        return task;
      }
    return nullptr;
  }
};

Policy& policy_of(unsigned sched_ctx) { return *static_cast<Policy*>(starpu_sched_ctx_get_policy_data(sched_ctx)); }

void wake(const Policy& policy, int but) {
  for (int w : policy.workers)
    if (w != but) starpu_wake_worker_relax_light(static_cast<unsigned>(w));
}

void init_sched(unsigned sched_ctx) { starpu_sched_ctx_set_policy_data(sched_ctx, new Policy(sched_ctx)); }

void deinit_sched(unsigned sched_ctx) { delete &policy_of(sched_ctx); }

void add_workers(unsigned sched_ctx, int* ids, unsigned count) {
  Policy& policy = policy_of(sched_ctx);
  Lock lock(policy.mutex);
  std::vector<int> all = policy.workers;
  for (unsigned i = 0; i < count; ++i)
    if (std::find(all.begin(), all.end(), ids[i]) == all.end()) all.push_back(ids[i]);
  policy.set_workers(std::move(all));
}

void remove_workers(unsigned sched_ctx, int* ids, unsigned count) {
  Policy& policy = policy_of(sched_ctx);
  Lock lock(policy.mutex);
  std::vector<int> rest;
  for (int w : policy.workers)
    if (std::find(ids, ids + count, w) == ids + count) {
      rest.push_back(w);
    } else {
      // The others finish what it had begun.
      WorkerState& gone = policy.at(w);
      for (starpu_task* task : gone.ready) policy.ungrouped.emplace(task->priority, task);
      gone = {};
    }
  policy.set_workers(std::move(rest));
  ++policy.events;
}

// As a group's tasks are submitted, one group a round is priced.
void submit_hook(starpu_task* task) {
  prorata_tag* tag = tag_of(task);
  if (!tag || !task->cl) return;
  prorata_group* group = tag->group;
  if (group->priced == 0 && tag->position != 0) return;
  Policy& policy = policy_of(task->sched_ctx);
  const Speeds::Work work{group->kind, group->samples};
  Lock lock(policy.mutex);
  if (group->priced == 0) {
    if (!policy.speeds.wants_price(work)) return;
    policy.speeds.begin_price(work, policy.workers);
  }
  for (int w : policy.workers)
    policy.speeds.add_price(work, static_cast<unsigned>(w),
                            price_task(task, policy.sched_ctx, static_cast<unsigned>(w)).seconds);
  if (++group->priced == group->tasks) policy.speeds.end_price(work);
}

int push_task(starpu_task* task) {
  Policy& policy = policy_of(task->sched_ctx);
  prorata_tag* tag = tag_of(task);
  int only = -1;
  {
    Lock lock(policy.mutex);
    const int bound = tag ? tag->group->worker_plus_1 - 1 : -1;
    if (!tag) {
      policy.ungrouped.emplace(task->priority, task);
    } else if (bound < 0) {
      policy.enqueue_waiting(tag->group, task);
    } else if (policy.at(bound).group == tag->group &&
               starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(bound), task, nullptr)) {
      policy.at(bound).ready.push_back(task);
      only = bound;
    } else {
      policy.ungrouped.emplace(task->priority, task);
    }
    starpu_push_task_end(task);
    ++policy.events;
  }
  const int self = starpu_worker_get_id();
  if (only < 0)
    wake(policy, self);
  else if (only != self)
    starpu_wake_worker_relax_light(static_cast<unsigned>(only));
  return 0;
}

void choose_implementation(starpu_task* task, unsigned sched_ctx, unsigned worker) {
  unsigned mask = 0;
  starpu_worker_can_execute_task_impl(worker, task, &mask);
  const int best = std::has_single_bit(mask) ? std::countr_zero(mask)  // no choice, no need to ask the models
                                             : price_task(task, sched_ctx, worker).implementation;
  starpu_task_set_implementation(task, static_cast<unsigned>(std::max(0, best)));
}

starpu_task* pop_task(unsigned sched_ctx) {
  Policy& policy = policy_of(sched_ctx);
  const int worker = static_cast<int>(starpu_worker_get_id_check());
  WorkerState& own = policy.at(worker);
  const std::uint64_t events = policy.events.load(std::memory_order_acquire);
  if (own.seen_events == events) return nullptr;

  starpu_task* task = nullptr;
  bool round_began = false;
  {
    Lock lock(policy.mutex);
    if (!own.group) {
      const std::size_t rounds = policy.ledger->rounds().size();
      if (prorata_group* group = policy.next_group(worker)) policy.bind(group, worker);
      round_began = policy.ledger->rounds().size() != rounds;
    }
    if (round_began) {
      policy.speeds.forget_price({policy.phase.kind, policy.phase.samples});
      ++policy.events;
    }
    task = policy.take_ready(own);
    if (!task) task = policy.take_ungrouped(worker);
    if (!task) own.seen_events = events;
  }
  if (round_began) wake(policy, worker);
  if (task) choose_implementation(task, sched_ctx, static_cast<unsigned>(worker));
  return task;
}

void post_exec_hook(starpu_task* task, unsigned sched_ctx) {
  prorata_tag* tag = tag_of(task);
  if (!tag) return;
  Policy& policy = policy_of(sched_ctx);
  bool waiting;
  {
    Lock lock(policy.mutex);
    prorata_group* group = tag->group;
    if (++group->finished != group->tasks || group->worker_plus_1 == 0) return;
    const int worker = group->worker_plus_1 - 1;
    if (policy.at(worker).group == group) {
      policy.at(worker).group = nullptr;
      policy.ledger->finish(policy.slot(worker));
      policy.speeds.measured({group->kind, group->samples}, static_cast<unsigned>(worker), now() - group->started);
      if (group->kind == policy.phase.kind && group->samples == policy.phase.samples)
        policy.ledger->set_seconds(policy.slot(worker),
                                   policy.speeds.seconds({group->kind, group->samples}, static_cast<unsigned>(worker)));
    }
    waiting = !policy.waiting.empty();
    ++policy.events;
  }
  if (waiting) wake(policy, starpu_worker_get_id());
}

starpu_sched_policy make_policy() {
  starpu_sched_policy policy{};
  policy.init_sched = init_sched;
  policy.deinit_sched = deinit_sched;
  policy.add_workers = add_workers;
  policy.remove_workers = remove_workers;
  policy.submit_hook = submit_hook;
  policy.push_task = push_task;
  policy.pop_task = pop_task;
  policy.post_exec_hook = post_exec_hook;
  policy.policy_name = "prorata";
  policy.policy_description = "groups of tasks (mini-batches) dealt to workers in proportion to their speed";
  policy.worker_type = STARPU_WORKER_LIST;
  return policy;
}

bool is_ours(unsigned sched_ctx) {
  const starpu_sched_policy* policy = starpu_sched_ctx_get_sched_policy(sched_ctx);
  return policy && policy->policy_name && std::string_view(policy->policy_name) == "prorata";
}

}  // namespace

PolicyReport policy_report(unsigned sched_ctx) {
  if (!is_ours(sched_ctx)) return {};
  Policy& policy = policy_of(sched_ctx);
  Lock lock(policy.mutex);
  return {policy.workers, policy.ledger->rounds()};
}

}  // namespace prorata

extern "C" {

starpu_sched_policy starpu_prorata_policy = prorata::make_policy();

int prorata_begin_phase(unsigned sched_ctx, const prorata_phase* phase) {
  if (!prorata::is_ours(sched_ctx)) return -ENOSYS;
  if (phase->balance > PRORATA_DYNAMIC) return -EINVAL;
  prorata::Policy& policy = prorata::policy_of(sched_ctx);
  prorata::Lock lock(policy.mutex);
  policy.announced = phase->groups != 0;
  policy.begin_phase(*phase);
  ++policy.events;
  return 0;
}

int prorata_price(unsigned sched_ctx, uint32_t kind, uint32_t samples, starpu_task* const* tasks, uint32_t count) {
  if (!prorata::is_ours(sched_ctx)) return -ENOSYS;
  prorata::Policy& policy = prorata::policy_of(sched_ctx);
  prorata::Lock lock(policy.mutex);
  for (int w : policy.workers) {
    double seconds = 0;
    for (uint32_t t = 0; t < count; ++t)
      seconds += prorata::price_task(tasks[t], sched_ctx, static_cast<unsigned>(w)).seconds;
    policy.speeds.set_price({kind, samples}, static_cast<unsigned>(w), seconds);
  }
  return 0;
}

double prorata_expected_seconds(unsigned sched_ctx, int worker, uint32_t kind, uint32_t samples) {
  if (!prorata::is_ours(sched_ctx)) return __builtin_nan("");
  prorata::Policy& policy = prorata::policy_of(sched_ctx);
  prorata::Lock lock(policy.mutex);
  const double seconds = policy.speeds.seconds({kind, samples}, static_cast<unsigned>(worker));
  return std::isnan(seconds) ? 0 : seconds;
}
}
