// The StarPU scheduling policy `prorata`. scheduler/prorata.h has its contract.
//
// Concurrency. One mutex guards a scheduling context's state. It is held for list operations and, once a round, for
// pricing; no StarPU function that could call the policy again is called under it. StarPU spins on pop_task while a
// worker is idle, so an idle worker that found nothing looks at an atomic counter (`events`) first and takes the
// lock only when something has happened since, or when tasks lie in others' queues and a while has passed: what is
// worth stealing changes with time.
#include "scheduler/policy.h"

#include "scheduler/context.h"
#include "scheduler/starpu_compat.h"
#include "scheduler/task_costs.h"

#include <starpu_scheduler.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace prorata {
namespace {

constexpr double kLookAgain = 100e-6;  // seconds after which an idle worker looks at the others' queues again

Context& context_of(unsigned sched_ctx) { return *static_cast<Context*>(starpu_sched_ctx_get_policy_data(sched_ctx)); }

void wake(const Context& context, int but) {
  for (int w = 0; w < static_cast<int>(starpu_worker_get_count()); ++w)
    if (w != but && context.state[static_cast<std::size_t>(w)].member)
      starpu_wake_worker_relax_light(static_cast<unsigned>(w));
}

void init_sched(unsigned sched_ctx) {
  starpu_sched_ctx_set_policy_data(sched_ctx, new Context(sched_ctx));
  // Any priority is told from any other. Otherwise StarPU says that there is but one, and 1.4 gives it to every task.
  if (!starpu_sched_ctx_min_priority_is_set(sched_ctx)) starpu_sched_ctx_set_min_priority(sched_ctx, INT_MIN);
  if (!starpu_sched_ctx_max_priority_is_set(sched_ctx)) starpu_sched_ctx_set_max_priority(sched_ctx, INT_MAX);
}

void deinit_sched(unsigned sched_ctx) { delete &context_of(sched_ctx); }

void add_workers(unsigned sched_ctx, int* ids, unsigned count) {
  Context& context = context_of(sched_ctx);
  Lock lock(context.mutex);
  std::vector<int> all = context.workers;
  for (unsigned i = 0; i < count; ++i)
    if (std::find(all.begin(), all.end(), ids[i]) == all.end()) all.push_back(ids[i]);
  context.change_workers(std::move(all));
}

void remove_workers(unsigned sched_ctx, int* ids, unsigned count) {
  Context& context = context_of(sched_ctx);
  Lock lock(context.mutex);
  std::vector<int> rest;
  for (int w : context.workers)
    if (std::find(ids, ids + count, w) == ids + count) rest.push_back(w);
  context.change_workers(std::move(rest));
}

// What a task adds to the price of its group on a worker: nothing where the worker leaves it to others.
double seconds_in_group(starpu_task* task, unsigned sched_ctx, int worker) {
  const TaskPrice price = price_task(task, sched_ctx, static_cast<unsigned>(worker));
  return price.implementation < 0 ? 0 : price.seconds;
}

// As a group's tasks are submitted, one group a round is priced.
void submit_hook(starpu_task* task) {
  prorata_tag* tag = tag_of(task);
  if (!tag || !task->cl) return;
  prorata_group* group = tag->group;
  if (group->priced == 0 && tag->position != 0) return;
  Context& context = context_of(task->sched_ctx);
  const Speeds::Work work{group->kind, group->samples};
  Lock lock(context.mutex);
  if (group->priced == 0) {
    if (!context.speeds.wants_price(work)) return;
    context.speeds.begin_price(work, context.workers);
  }
  for (int w : context.workers)
    context.speeds.add_price(work, static_cast<unsigned>(w), seconds_in_group(task, context.sched_ctx, w));
  if (++group->priced == group->tasks) context.speeds.end_price(work);
}

// Deals a task without a group; returns the worker that is to be woken, or SingleTasks::kCommon for all.
int push_single(Context& context, starpu_task* task) {
  std::vector<TaskCost> costs = task_costs(task, context.sched_ctx);
  int worker = SingleTasks::kCommon;
  // Once a task: StarPU 1.4 aborts when it is asked again.
  if (starpu_memory_nodes_get_count() > 1 && starpu_get_prefetch_flag() && !task->prefetched) {
    {
      Lock lock(context.mutex);
      worker = context.singles.choose(costs, task->priority, now());
    }
    // Before the task can be taken: it may be gone soon after.
    if (worker != SingleTasks::kCommon) starpu_prefetch_task_input_for(task, static_cast<unsigned>(worker));
  }
  Lock lock(context.mutex);
  if (context.workers_changed()) {
    context.follow_workers();
    costs = task_costs(task, context.sched_ctx);
    worker = SingleTasks::kCommon;
  }
  if (worker == SingleTasks::kCommon)
    worker = context.deal(task, std::move(costs));
  else
    context.queue(worker, task, std::move(costs), now());
  starpu_push_task_end(task);
  ++context.events;
  return worker;
}

// A group has ended on its worker.
void end_group(Context& context, prorata_group* group) {
  const int worker = group->worker_plus_1 - 1;
  if (context.at(worker).group != group) return;
  context.at(worker).group = nullptr;
  context.singles.release(worker, now());
  if (group->for_worker_plus_1 == 0) context.ledger->finish(context.slot(worker));
  context.speeds.measured({group->kind, group->samples}, static_cast<unsigned>(worker), now() - group->started);
  const bool excluded = std::isinf(context.ledger->seconds(context.slot(worker)));
  if (!excluded && group->kind == context.phase.kind && group->samples == context.phase.samples)
    context.ledger->set_seconds(context.slot(worker),
                                context.speeds.seconds({group->kind, group->samples}, static_cast<unsigned>(worker)));
  if (group->kind == context.phase.kind) context.update_time(worker);
}

// What the group's worker cannot run is others' work from now on: the worker need not wait for it.
void leave_group(Context& context, starpu_task* task, prorata_group* group) {
  task->sched_data = nullptr;
  if (group->finished == --group->tasks) end_group(context, group);
}

// Of a task that belongs to a group; returns the worker to wake, -1 for all, or kSingly where it is to be dealt singly.
constexpr int kSingly = -2;
int push_grouped(Context& context, starpu_task* task, prorata_group* group) {
  Lock lock(context.mutex);
  if (context.workers_changed()) context.follow_workers();
  if (group->worker_plus_1 == kDealtSingly) return kSingly;
  const int bound = group->worker_plus_1 - 1;
  if (bound < 0) {
    context.enqueue_waiting(group, task);
  } else if (context.at(bound).group == group &&
             starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(bound), task, nullptr)) {
    context.at(bound).ready.push_back(task);
  } else {
    leave_group(context, task, group);
    return kSingly;
  }
  starpu_push_task_end(task);
  ++context.events;
  return bound;
}

int push_task(starpu_task* task) {
  Context& context = context_of(task->sched_ctx);
  prorata_tag* const tag = tag_of(task);
  int only = tag ? push_grouped(context, task, tag->group) : kSingly;
  if (only == kSingly) {
    only = push_single(context, task);
    if (tag) only = SingleTasks::kCommon;  // the worker that it left may be free now, too
  }
  const int self = starpu_worker_get_id();
  if (only < 0)
    wake(context, self);
  else if (only != self)
    starpu_wake_worker_relax_light(static_cast<unsigned>(only));
  return 0;
}

// A task that its program has pinned to a worker: StarPU hands it out itself, but it keeps the worker busy.
void push_task_notify(starpu_task* task, int worker, int perf_worker, unsigned sched_ctx) {
  if (task->sched_ctx != sched_ctx || worker != perf_worker || tag_of(task)) return;
  Context& context = context_of(sched_ctx);
  const double seconds = price_task(task, sched_ctx, static_cast<unsigned>(worker)).seconds;
  Lock lock(context.mutex);
  context.singles.begin(worker, task, seconds, now());
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
  Context& context = context_of(sched_ctx);
  const int worker = static_cast<int>(starpu_worker_get_id_check());
  WorkerState& own = context.at(worker);
  const std::uint64_t events = context.events.load(std::memory_order_acquire);
  const bool changed = context.workers_changed();
  if (!changed && own.seen_events == events &&
      !(context.time_matters.load(std::memory_order_relaxed) && now() >= own.look_again)) {
    std::this_thread::yield();  // StarPU asks again at once; who else waits for this core goes first
    return nullptr;
  }

  starpu_task* task = nullptr;
  bool news;  // for the others
  {
    Lock lock(context.mutex);
    const std::uint64_t before = context.events;
    if (changed) context.follow_workers();
    task = context.take_urgent(worker);
    // Neither can groups that follow one another keep a task without one waiting for ever, nor the other way round.
    if (!task && !own.group && own.owes_single) task = context.take_single(worker, false);
    if (!task && !own.group && own.member) {
      const std::size_t rounds = context.ledger->rounds().size();
      if (prorata_group* group = context.next_group(worker)) context.bind(group, worker);
      if (context.ledger->rounds().size() != rounds) {
        context.speeds.forget_prices(context.phase.kind);
        ++context.events;
      }
    }
    if (!task) task = context.take_ready(own);
    if (!task) task = context.take_single(worker, true);
    if (!task) {
      own.seen_events = events;
      own.look_again = now() + kLookAgain;
    }
    news = context.events != before;
  }
  if (news) wake(context, worker);
  if (!task || choose_implementation(task, sched_ctx, static_cast<unsigned>(worker))) return task;
  push_single(context, task);
  wake(context, worker);
  return nullptr;
}

void post_exec_hook(starpu_task* task, unsigned sched_ctx) {
  prorata_tag* tag = tag_of(task);
  Context& context = context_of(sched_ctx);
  if (!tag) {
    Lock lock(context.mutex);
    context.singles.finish(task, now());
    return;
  }
  bool waiting;
  {
    Lock lock(context.mutex);
    prorata_group* group = tag->group;
    if (context.singles.any_begun()) context.singles.finish(task, now());
    if (++group->finished != group->tasks || group->worker_plus_1 <= 0) return;
    end_group(context, group);
    waiting = !context.waiting.empty();
    ++context.events;
  }
  if (waiting) wake(context, starpu_worker_get_id());
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
  prorata_set_prefetches(&policy);
  return policy;
}

bool is_ours(unsigned sched_ctx) {
  const starpu_sched_policy* policy = starpu_sched_ctx_get_sched_policy(sched_ctx);
  return policy && policy->policy_name && std::string_view(policy->policy_name) == "prorata";
}

}  // namespace

PolicyReport policy_report(unsigned sched_ctx) {
  if (!is_ours(sched_ctx)) return {};
  Context& context = context_of(sched_ctx);
  Lock lock(context.mutex);
  return {context.workers, context.sizes ? context.sizes->rounds() : context.ledger->rounds()};
}

}  // namespace prorata

extern "C" {

starpu_sched_policy starpu_prorata_policy = prorata::make_policy();

int prorata_begin_phase(unsigned sched_ctx, const prorata_phase* phase) {
  if (!prorata::is_ours(sched_ctx)) return -ENOSYS;
  if (phase->balance > PRORATA_DYNAMIC || phase->share > PRORATA_SIZE) return -EINVAL;
  if (phase->share == PRORATA_SIZE && phase->balance != PRORATA_PRORATA) return -EINVAL;
  prorata::Context& context = prorata::context_of(sched_ctx);
  prorata::Lock lock(context.mutex);
  context.announced = phase->groups != 0;
  context.begin_phase(*phase);
  ++context.events;
  return 0;
}

uint32_t prorata_next_samples(unsigned sched_ctx, int worker) {
  if (!prorata::is_ours(sched_ctx)) return 0;
  prorata::Context& context = prorata::context_of(sched_ctx);
  prorata::Lock lock(context.mutex);
  if (!context.sizes || !context.at(worker).member) return 0;
  const auto samples = context.sizes->next(context.slot(worker), prorata::now());
  if (context.sizes->round_began()) context.speeds.forget_prices(context.phase.kind);
  return static_cast<uint32_t>(samples);
}

int prorata_price(unsigned sched_ctx, uint32_t kind, uint32_t samples, starpu_task* const* tasks, uint32_t count) {
  if (!prorata::is_ours(sched_ctx)) return -ENOSYS;
  prorata::Context& context = prorata::context_of(sched_ctx);
  prorata::Lock lock(context.mutex);
  for (int w : context.workers) {
    double seconds = 0;
    for (uint32_t t = 0; t < count; ++t) seconds += prorata::seconds_in_group(tasks[t], sched_ctx, w);
    context.speeds.set_price({kind, samples}, static_cast<unsigned>(w), seconds);
  }
  return 0;
}

double prorata_expected_seconds(unsigned sched_ctx, int worker, uint32_t kind, uint32_t samples) {
  if (!prorata::is_ours(sched_ctx)) return __builtin_nan("");
  prorata::Context& context = prorata::context_of(sched_ctx);
  prorata::Lock lock(context.mutex);
  const double seconds = context.speeds.seconds({kind, samples}, static_cast<unsigned>(worker));
  return std::isnan(seconds) ? 0 : seconds;
}
}
