// What the policy costs a task: the time within push_task and pop_task, in a StarPU program of groups of empty tasks.
// Pops that find nothing are what an idle worker does, and do not count. The clock's own cost is taken off. Aim: 1 us a
// task.
#include "scheduler/prorata.h"

#include <benchmark/benchmark.h>
#include <starpu.h>
#include <starpu_scheduler.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t ticks() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

struct Spent {
  std::atomic<std::int64_t> nanoseconds{0}, calls{0};
  void add(std::int64_t ns) {
    nanoseconds.fetch_add(ns, std::memory_order_relaxed);
    calls.fetch_add(1, std::memory_order_relaxed);
  }
  double per_call(double clock) const { return static_cast<double>(nanoseconds) / static_cast<double>(calls) - clock; }
};
Spent in_push, in_pop;

int timed_push(starpu_task* task) {
  const std::int64_t began = ticks();
  const int result = starpu_prorata_policy.push_task(task);
  in_push.add(ticks() - began);
  return result;
}

starpu_task* timed_pop(unsigned sched_ctx) {
  const std::int64_t began = ticks();
  starpu_task* task = starpu_prorata_policy.pop_task(sched_ctx);
  if (task) in_pop.add(ticks() - began);
  return task;
}

// What two readings of the clock with nothing between them differ by.
double clock_cost() {
  std::vector<std::int64_t> differences(10001);
  for (std::int64_t& d : differences) {
    const std::int64_t began = ticks();
    d = ticks() - began;
  }
  double sum = 0;
  for (std::int64_t d : differences) sum += static_cast<double>(d);
  return sum / static_cast<double>(differences.size());
}

void nothing(void*[], void*) {}

struct Program {
  Program(int workers, int implementations) {
    ::unsetenv("STARPU_SCHED");
    policy = starpu_prorata_policy;
    policy.push_task = timed_push;
    policy.pop_task = timed_pop;
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = workers;
    conf.ncuda = conf.nopencl = 0;
    conf.sched_policy = &policy;
    if (starpu_init(&conf) != 0) std::abort();
    starpu_codelet_init(&codelet);
    for (int i = 0; i < implementations; ++i) codelet.cpu_funcs[i] = nothing;
    codelet.name = "nothing";
    model.type = STARPU_HISTORY_BASED;
    model.symbol = "scheduler_bench_nothing";
    codelet.model = &model;
  }
  ~Program() { starpu_shutdown(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Groups of `size` tasks, each task after the one before: as the tasks of a mini-batch come.
  void run(std::size_t count, std::uint32_t size) {
    std::vector<prorata_group> groups(count);
    std::vector<prorata_tag> tags(count * size);
    const prorata_phase phase{.groups = count, .round = 0, .kind = 0, .samples = 1, .balance = PRORATA_PRORATA};
    if (prorata_begin_phase(0, &phase) != 0) std::abort();
    for (std::size_t g = 0; g < count; ++g) {
      groups[g] = {};
      groups[g].sequence = g;
      groups[g].tasks = size;
      groups[g].samples = 1;
      starpu_task* before = nullptr;
      for (std::uint32_t t = 0; t < size; ++t) {
        tags[g * size + t] = {&groups[g], t};
        starpu_task* task = starpu_task_create();
        task->cl = &codelet;
        task->sched_data = &tags[g * size + t];
        if (before) starpu_task_declare_deps_array(task, 1, &before);
        if (before && starpu_task_submit(before) != 0) std::abort();
        before = task;
      }
      if (starpu_task_submit(before) != 0) std::abort();
    }
    starpu_task_wait_for_all();
  }

  starpu_sched_policy policy;
  starpu_perfmodel model{};
  starpu_codelet codelet;
};

void policy_push_pop(benchmark::State& state) {
  constexpr std::size_t kGroups = 2000;
  const auto size = static_cast<std::uint32_t>(state.range(1));
  Program program(static_cast<int>(state.range(0)), static_cast<int>(state.range(2)));
  program.run(kGroups, size);  // models and memory are warm
  const double clock = clock_cost();
  in_push.nanoseconds = in_push.calls = in_pop.nanoseconds = in_pop.calls = 0;
  double seconds_before = 0;
  for (auto _ : state) {
    program.run(kGroups, size);
    const double per_task = in_push.per_call(clock) + in_pop.per_call(clock);
    const double seconds = per_task * 1e-9 * static_cast<double>(in_push.calls);
    state.SetIterationTime(seconds - seconds_before);
    seconds_before = seconds;
  }
  state.SetItemsProcessed(in_push.calls);
  state.counters["push_ns"] = in_push.per_call(clock);
  state.counters["pop_ns"] = in_pop.per_call(clock);
  state.counters["task_ns"] = in_push.per_call(clock) + in_pop.per_call(clock);
}
BENCHMARK(policy_push_pop)
    ->ArgNames({"workers", "tasks", "implementations"})
    ->ArgsProduct({{1, 2}, {1, 13}, {1, 2}})
    ->UseManualTime()
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond);

}  // namespace
