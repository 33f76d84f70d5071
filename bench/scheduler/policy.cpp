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
#include <numeric>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t ticks() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

// What each call took. The mean holds what the machine's other programs took from it, the median does not.
class Spent {
 public:
  void clear() { calls_ = 0; }
  void add(std::int64_t ns) {
    const std::size_t call = calls_.fetch_add(1, std::memory_order_relaxed);
    if (call < nanoseconds_.size()) nanoseconds_[call] = ns;
  }
  double mean() const {
    return static_cast<double>(std::accumulate(nanoseconds_.begin(), end(), std::int64_t{0})) /
           static_cast<double>(end() - nanoseconds_.begin());
  }
  double median() {
    const auto middle = nanoseconds_.begin() + (end() - nanoseconds_.begin()) / 2;
    std::nth_element(nanoseconds_.begin(), middle, nanoseconds_.begin() + (end() - nanoseconds_.begin()));
    return static_cast<double>(*middle);
  }

 private:
  std::vector<std::int64_t>::const_iterator end() const {
    return nanoseconds_.begin() + static_cast<std::ptrdiff_t>(std::min(calls_.load(), nanoseconds_.size()));
  }

  std::vector<std::int64_t> nanoseconds_ = std::vector<std::int64_t>(1 << 20);
  std::atomic<std::size_t> calls_{0};
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
  Spent nothing;
  for (int i = 0; i < 10000; ++i) {
    const std::int64_t began = ticks();
    nothing.add(ticks() - began);
  }
  return nothing.median();
}

void nothing(void*[], void*) {}

struct Program {
  Program(int workers, int implementations) {
    ::unsetenv("STARPU_SCHED");
    ::setenv("STARPU_HISTORY_MAX_ERROR", "1000000", 0);  // tasks so short differ by a lot, and StarPU would say so
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
    prorata_phase phase{};
    phase.groups = count;
    phase.samples = 1;
    phase.balance = PRORATA_PRORATA;
    if (prorata_begin_phase(0, &phase) != 0) std::abort();
    for (std::size_t g = 0; g < count; ++g) {
      groups[g] = {};
      groups[g].sequence = g;
      groups[g].tasks = size;
      groups[g].samples = 1;
      starpu_task* before = nullptr;
      for (std::uint32_t t = 0; t < size; ++t) {
        tags[g * size + t] = PRORATA_TAG(&groups[g], t);
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
  in_push.clear();
  in_pop.clear();
  for (auto _ : state) program.run(kGroups, size);
  state.counters["push_mean"] = in_push.mean() - clock;
  state.counters["pop_mean"] = in_pop.mean() - clock;
  state.counters["push"] = in_push.median() - clock;
  state.counters["pop"] = in_pop.median() - clock;
  state.counters["task"] = in_push.median() + in_pop.median() - 2 * clock;
}
BENCHMARK(policy_push_pop)
    ->ArgNames({"workers", "tasks", "implementations"})
    ->ArgsProduct({{1, 2}, {1, 13}, {1, 2}})
    ->UseRealTime()
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond);

}  // namespace
