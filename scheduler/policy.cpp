// The StarPU scheduling policy `prorata`. scheduler/prorata.h has its contract.
//
// Concurrency. One mutex guards a scheduling context's state. It is held for list operations and, once a round, for
// pricing; no StarPU function that could call the policy again is called under it. StarPU spins on pop_task while a
// worker is idle, so an idle worker that found nothing looks at an atomic counter (`events`) first and takes the
// lock only when something has happened since, or when tasks lie in others' queues and a while has passed: what is
// worth stealing changes with time. StarPU 1.3 tells a policy of workers that come, not of those that go: whoever
// pushes or pops compares their number with the context's.
#include "scheduler/policy.h"

#include "scheduler/ledger.h"
#include "scheduler/single_tasks.h"
#include "scheduler/size_ledger.h"
#include "scheduler/speed.h"
#include "scheduler/task_costs.h"

#include <starpu_scheduler.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace prorata {
namespace {

constexpr std::int64_t kEndless = std::int64_t{1} << 62;  // groups of a phase that nobody has announced
constexpr std::uint32_t kRoundPerWorker = 8;
constexpr double kLookAgain = 100e-6;      // seconds after which an idle worker looks at the others' queues again
constexpr std::int32_t kDealtSingly = -1;  // prorata_group::worker_plus_1 of a group that no worker can run

double now() { return starpu_timing_now() * 1e-6; }

// Null for a task that belongs to no group, also where the program keeps something else in sched_data: small integers,
// as one of StarPU's own components wants, are told apart before anything is read.
prorata_tag* tag_of(const starpu_task* task) {
  constexpr std::uintptr_t kFirstPage = 4096;
  const auto address = reinterpret_cast<std::uintptr_t>(task->sched_data);
  if (address < kFirstPage || address % alignof(prorata_tag) != 0) return nullptr;
  auto* tag = static_cast<prorata_tag*>(task->sched_data);
  return tag->magic == PRORATA_TAG_MAGIC ? tag : nullptr;
}

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
  std::deque<prorata_group*> own;   // waiting for this worker alone, by sequence
  std::uint64_t seen_events = 0;    // the counter when it last found nothing
  double look_again = 0;            // when time alone is a reason to look
  std::atomic<bool> member{false};  // of the context; one that is not may still finish what nobody else can
  bool owes_single = false;         // it has begun a group since it last looked for a task without one
};

struct Policy {
  explicit Policy(unsigned ctx) : sched_ctx(ctx), singles(starpu_worker_get_count()) {
    starpu_pthread_mutex_init(&mutex, nullptr);
  }
  ~Policy() { starpu_pthread_mutex_destroy(&mutex); }
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  const unsigned sched_ctx;
  starpu_pthread_mutex_t mutex;
  std::atomic<std::uint64_t> events{1};

  std::vector<int> workers;  // of the context, ascending
  std::array<int, STARPU_NMAXWORKERS> index{};
  std::array<WorkerState, STARPU_NMAXWORKERS> state;
  std::deque<prorata_group*> waiting;  // not bound, and anybody's, by sequence

  SingleTasks singles;                    // tasks without a group
  std::vector<starpu_task*> stranded;     // those that no worker of the context can run at present
  std::atomic<bool> time_matters{false};  // some lie in a worker's own queue, or are stranded
  std::atomic<unsigned> known_workers{0};

  prorata_phase phase{};
  bool announced = false;
  std::unique_ptr<Ledger> ledger = std::make_unique<Ledger>(0);
  std::unique_ptr<SizeLedger> sizes;  // under PRORATA_SIZE; the ledger is then not asked
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
    ledger->begin(balance, total, round, phase.in_steps != 0);
    sizes.reset();
    if (phase.share == PRORATA_SIZE && !workers.empty()) begin_sizes(round);
  }

  void begin_sizes(std::uint32_t round) {
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
  void update_speeds() {
    for (int w : workers) {
      if (std::isinf(ledger->seconds(slot(w)))) continue;
      ledger->set_seconds(slot(w), speeds.seconds({phase.kind, phase.samples}, static_cast<unsigned>(w)));
    }
    for (int w : workers) update_time(w);
    speeds.forget_prices(phase.kind);
  }

  void update_time(int worker) {
    if (!sizes) return;
    const bool unable = std::isinf(ledger->seconds(slot(worker)));
    sizes->set_time(slot(worker),
                    unable ? TimeFunction::unable() : speeds.time(phase.kind, static_cast<unsigned>(worker)));
  }

  void set_workers(std::vector<int> ids) {
    std::sort(ids.begin(), ids.end());
    workers = std::move(ids);
    known_workers = static_cast<unsigned>(workers.size());
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
      insert(group);
    }
    group->ready_tail = task;
  }

  void insert(prorata_group* group) {
    const int only = group->for_worker_plus_1 - 1;
    if (only >= 0 && !at(only).member) group->for_worker_plus_1 = 0;
    std::deque<prorata_group*>& queue = group->for_worker_plus_1 > 0 ? at(only).own : waiting;
    queue.insert(std::upper_bound(queue.begin(), queue.end(), group,
                                  [](auto* a, auto* b) { return a->sequence < b->sequence; }),
                 group);
  }

  // What only this worker was to do is anybody's.
  void release_own(int worker) {
    for (prorata_group* group : std::exchange(at(worker).own, {})) {
      group->for_worker_plus_1 = 0;
      insert(group);
    }
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
    if (group->for_worker_plus_1 == 0) ledger->take(slot(worker), time);
    at(worker).owes_single = true;
    const double seconds = speeds.seconds({group->kind, group->samples}, static_cast<unsigned>(worker));
    singles.occupy(worker, time + (std::isfinite(seconds) ? seconds : 0));
  }

  static bool can_run(int worker, const prorata_group& group) {
    for (auto* task = static_cast<starpu_task*>(group.ready); task; task = task->next)
      if (!starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(worker), task, nullptr)) return false;
    return true;
  }

  // The group at the front suits none of the workers that get shares: whoever can takes it all the same, and if nobody
  // can run all of it, its tasks are dealt one by one.
  prorata_group* unshared_group(int worker) {
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

  // The next group for a free worker, or null.
  prorata_group* next_group(int worker) {
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

  starpu_task* take_ready(WorkerState& own) {
    const auto first = std::min_element(own.ready.begin(), own.ready.end(),
                                        [](auto* a, auto* b) { return tag_of(a)->position < tag_of(b)->position; });
    if (first == own.ready.end()) return nullptr;
    starpu_task* task = *first;
    own.ready.erase(first);
    return task;
  }

  // `costs` as of now. Returns the worker that it was dealt to, or SingleTasks::kCommon.
  int deal(starpu_task* task, std::vector<TaskCost> costs) {
    const double time = now();
    const int worker = singles.choose(costs, task->priority, time);
    queue(worker, task, std::move(costs), time);
    return worker;
  }

  void queue(int worker, starpu_task* task, std::vector<TaskCost> costs, double time) {
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

  void note_queues() { time_matters.store(singles.dealt() != 0 || !stranded.empty(), std::memory_order_relaxed); }

  starpu_task* take_stranded(int worker) {
    for (auto it = stranded.begin(); it != stranded.end(); ++it)
      if (starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(worker), *it, nullptr)) {
        starpu_task* task = *it;
        stranded.erase(it);
        return task;
      }
    return nullptr;
  }

  starpu_task* take_single(int worker, bool idle) {
    at(worker).owes_single = false;
    const double time = now();
    starpu_task* task = at(worker).member ? singles.pop(worker, time) : nullptr;
    if (!task && !stranded.empty()) task = take_stranded(worker);
    if (!task && idle && at(worker).member) task = singles.steal(worker, time);
    note_queues();
    return task;
  }

  bool workers_changed() const { return known_workers != starpu_sched_ctx_get_nworkers(sched_ctx); }

  void follow_workers() {
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

  // What lies in queues is dealt anew; others finish the groups that those who leave had begun.
  void change_workers(std::vector<int> present) {
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
};

Policy& policy_of(unsigned sched_ctx) { return *static_cast<Policy*>(starpu_sched_ctx_get_policy_data(sched_ctx)); }

void wake(const Policy& policy, int but) {
  for (int w = 0; w < static_cast<int>(starpu_worker_get_count()); ++w)
    if (w != but && policy.state[static_cast<std::size_t>(w)].member)
      starpu_wake_worker_relax_light(static_cast<unsigned>(w));
}

void init_sched(unsigned sched_ctx) { starpu_sched_ctx_set_policy_data(sched_ctx, new Policy(sched_ctx)); }

void deinit_sched(unsigned sched_ctx) { delete &policy_of(sched_ctx); }

void add_workers(unsigned sched_ctx, int* ids, unsigned count) {
  Policy& policy = policy_of(sched_ctx);
  Lock lock(policy.mutex);
  std::vector<int> all = policy.workers;
  for (unsigned i = 0; i < count; ++i)
    if (std::find(all.begin(), all.end(), ids[i]) == all.end()) all.push_back(ids[i]);
  policy.change_workers(std::move(all));
}

void remove_workers(unsigned sched_ctx, int* ids, unsigned count) {
  Policy& policy = policy_of(sched_ctx);
  Lock lock(policy.mutex);
  std::vector<int> rest;
  for (int w : policy.workers)
    if (std::find(ids, ids + count, w) == ids + count) rest.push_back(w);
  policy.change_workers(std::move(rest));
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

// Deals a task without a group; returns the worker that is to be woken, or SingleTasks::kCommon for all.
int push_single(Policy& policy, starpu_task* task) {
  std::vector<TaskCost> costs = task_costs(task, policy.sched_ctx);
  int worker = SingleTasks::kCommon;
  if (starpu_memory_nodes_get_count() > 1 && starpu_get_prefetch_flag()) {
    {
      Lock lock(policy.mutex);
      worker = policy.singles.choose(costs, task->priority, now());
    }
    // Before the task can be taken: it may be gone soon after.
    if (worker != SingleTasks::kCommon) starpu_prefetch_task_input_for(task, static_cast<unsigned>(worker));
  }
  Lock lock(policy.mutex);
  if (policy.workers_changed()) {
    policy.follow_workers();
    costs = task_costs(task, policy.sched_ctx);
    worker = SingleTasks::kCommon;
  }
  if (worker == SingleTasks::kCommon)
    worker = policy.deal(task, std::move(costs));
  else
    policy.queue(worker, task, std::move(costs), now());
  starpu_push_task_end(task);
  ++policy.events;
  return worker;
}

// Of a task that belongs to a group; returns the worker to wake, -1 for all, or kSingly where it is to be dealt singly.
constexpr int kSingly = -2;
int push_grouped(Policy& policy, starpu_task* task, prorata_group* group) {
  Lock lock(policy.mutex);
  if (policy.workers_changed()) policy.follow_workers();
  if (group->worker_plus_1 == kDealtSingly) return kSingly;
  const int bound = group->worker_plus_1 - 1;
  if (bound < 0) {
    policy.enqueue_waiting(group, task);
  } else if (policy.at(bound).group == group &&
             starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(bound), task, nullptr)) {
    policy.at(bound).ready.push_back(task);
  } else {
    return kSingly;
  }
  starpu_push_task_end(task);
  ++policy.events;
  return bound;
}

int push_task(starpu_task* task) {
  Policy& policy = policy_of(task->sched_ctx);
  const prorata_tag* tag = tag_of(task);
  int only = tag ? push_grouped(policy, task, tag->group) : kSingly;
  if (only == kSingly) only = push_single(policy, task);
  const int self = starpu_worker_get_id();
  if (only < 0)
    wake(policy, self);
  else if (only != self)
    starpu_wake_worker_relax_light(static_cast<unsigned>(only));
  return 0;
}

// A task that its program has pinned to a worker: StarPU hands it out itself, but it keeps the worker busy.
void push_task_notify(starpu_task* task, int worker, int perf_worker, unsigned sched_ctx) {
  if (task->sched_ctx != sched_ctx || worker != perf_worker || tag_of(task)) return;
  Policy& policy = policy_of(sched_ctx);
  const double seconds = price_task(task, sched_ctx, static_cast<unsigned>(worker)).seconds;
  Lock lock(policy.mutex);
  policy.singles.begin(worker, task, seconds, now());
}

// False: the worker can run it no longer, by the codelet's own word.
bool choose_implementation(starpu_task* task, unsigned sched_ctx, unsigned worker) {
  unsigned mask = 0;
  if (!starpu_worker_can_execute_task_impl(worker, task, &mask)) return false;
  const int best = std::has_single_bit(mask) ? std::countr_zero(mask)  // no choice, no need to ask the models
                                             : price_task(task, sched_ctx, worker).implementation;
  starpu_task_set_implementation(task, static_cast<unsigned>(std::max(0, best)));
  return true;
}

starpu_task* pop_task(unsigned sched_ctx) {
  Policy& policy = policy_of(sched_ctx);
  const int worker = static_cast<int>(starpu_worker_get_id_check());
  WorkerState& own = policy.at(worker);
  const std::uint64_t events = policy.events.load(std::memory_order_acquire);
  const bool changed = policy.workers_changed();
  if (!changed && own.seen_events == events &&
      !(policy.time_matters.load(std::memory_order_relaxed) && now() >= own.look_again))
    return nullptr;

  starpu_task* task = nullptr;
  bool news;  // for the others
  {
    Lock lock(policy.mutex);
    const std::uint64_t before = policy.events;
    if (changed) policy.follow_workers();
    // Neither can groups that follow one another keep a task without one waiting for ever, nor the other way round.
    if (!own.group && own.owes_single) task = policy.take_single(worker, false);
    if (!task && !own.group && own.member) {
      const std::size_t rounds = policy.ledger->rounds().size();
      if (prorata_group* group = policy.next_group(worker)) policy.bind(group, worker);
      if (policy.ledger->rounds().size() != rounds) {
        policy.speeds.forget_prices(policy.phase.kind);
        ++policy.events;
      }
    }
    if (!task) task = policy.take_ready(own);
    if (!task) task = policy.take_single(worker, true);
    if (!task) {
      own.seen_events = events;
      own.look_again = now() + kLookAgain;
    }
    news = policy.events != before;
  }
  if (news) wake(policy, worker);
  if (!task || choose_implementation(task, sched_ctx, static_cast<unsigned>(worker))) return task;
  push_single(policy, task);
  wake(policy, worker);
  return nullptr;
}

void post_exec_hook(starpu_task* task, unsigned sched_ctx) {
  prorata_tag* tag = tag_of(task);
  Policy& policy = policy_of(sched_ctx);
  if (!tag) {
    Lock lock(policy.mutex);
    policy.singles.finish(task, now());
    return;
  }
  bool waiting;
  {
    Lock lock(policy.mutex);
    prorata_group* group = tag->group;
    if (policy.singles.any_begun()) policy.singles.finish(task, now());
    if (++group->finished != group->tasks || group->worker_plus_1 <= 0) return;
    const int worker = group->worker_plus_1 - 1;
    if (policy.at(worker).group == group) {
      policy.at(worker).group = nullptr;
      policy.singles.release(worker, now());
      if (group->for_worker_plus_1 == 0) policy.ledger->finish(policy.slot(worker));
      policy.speeds.measured({group->kind, group->samples}, static_cast<unsigned>(worker), now() - group->started);
      const bool excluded = std::isinf(policy.ledger->seconds(policy.slot(worker)));
      if (!excluded && group->kind == policy.phase.kind && group->samples == policy.phase.samples)
        policy.ledger->set_seconds(policy.slot(worker),
                                   policy.speeds.seconds({group->kind, group->samples}, static_cast<unsigned>(worker)));
      if (group->kind == policy.phase.kind) policy.update_time(worker);
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
  policy.push_task_notify = push_task_notify;
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
  return {policy.workers, policy.sizes ? policy.sizes->rounds() : policy.ledger->rounds()};
}

}  // namespace prorata

extern "C" {

starpu_sched_policy starpu_prorata_policy = prorata::make_policy();

int prorata_begin_phase(unsigned sched_ctx, const prorata_phase* phase) {
  if (!prorata::is_ours(sched_ctx)) return -ENOSYS;
  if (phase->balance > PRORATA_DYNAMIC || phase->share > PRORATA_SIZE) return -EINVAL;
  if (phase->share == PRORATA_SIZE && phase->balance != PRORATA_PRORATA) return -EINVAL;
  prorata::Policy& policy = prorata::policy_of(sched_ctx);
  prorata::Lock lock(policy.mutex);
  policy.announced = phase->groups != 0;
  policy.begin_phase(*phase);
  ++policy.events;
  return 0;
}

uint32_t prorata_next_samples(unsigned sched_ctx, int worker) {
  if (!prorata::is_ours(sched_ctx)) return 0;
  prorata::Policy& policy = prorata::policy_of(sched_ctx);
  prorata::Lock lock(policy.mutex);
  if (!policy.sizes || !policy.at(worker).member) return 0;
  const auto samples = policy.sizes->next(policy.slot(worker), prorata::now());
  if (policy.sizes->round_began()) policy.speeds.forget_prices(policy.phase.kind);
  return static_cast<uint32_t>(samples);
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
