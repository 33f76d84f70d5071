// The policy in a StarPU program that has nothing to do with networks: the header's worked example and its edges.
#include "scheduler/policy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <numeric>

namespace prorata {
namespace {

struct Ran {
  std::atomic<int> tasks{0};
  std::atomic<int> worker{-1};
  std::atomic<bool> moved{false};  // tasks of the group on more than one worker
  std::atomic<bool> out_of_order{false};
};

struct Args {
  Ran* ran;
  int position;
};

void work(void*[], void* arg) {
  const auto* a = static_cast<Args*>(arg);
  int expected = -1;
  const int self = starpu_worker_get_id();
  if (!a->ran->worker.compare_exchange_strong(expected, self) && expected != self) a->ran->moved = true;
  if (a->ran->tasks++ != a->position) a->ran->out_of_order = true;
}

struct Groups {
  explicit Groups(std::size_t n, std::uint32_t tasks) : ran(n), groups(n), tags(n * tasks), count(tasks) {
    for (std::size_t g = 0; g < n; ++g) {
      groups[g] = prorata_group{};
      groups[g].sequence = g;
      groups[g].tasks = tasks;
      for (std::uint32_t t = 0; t < tasks; ++t) tags[g * tasks + t] = PRORATA_TAG(&groups[g], t);
    }
  }
  std::vector<Ran> ran;
  std::vector<prorata_group> groups;
  std::vector<prorata_tag> tags;
  std::uint32_t count;
};

class Policy : public ::testing::Test {
 protected:
  void start(int workers, starpu_sched_policy* policy = &starpu_prorata_policy) {
    ::unsetenv("STARPU_SCHED");
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = workers;
    conf.ncuda = conf.nopencl = 0;
    conf.sched_policy = policy;
    ASSERT_EQ(starpu_init(&conf), 0);
    starpu_codelet_init(&codelet_);
    codelet_.cpu_funcs[0] = work;
    codelet_.name = "work";
    running_ = true;
  }
  void TearDown() override {
    if (running_) starpu_shutdown();
  }

  starpu_task* task(Ran& ran, int position) {
    args_.push_back(std::make_unique<Args>(Args{&ran, position}));
    starpu_task* t = starpu_task_create();
    t->cl = &codelet_;
    t->cl_arg = args_.back().get();
    return t;
  }

  // Every task of every group, in order.
  void submit_all(Groups& g) {
    for (std::size_t i = 0; i < g.tags.size(); ++i) {
      starpu_task* made = task(g.ran[i / g.count], static_cast<int>(i % g.count));
      made->sched_data = &g.tags[i];
      ASSERT_EQ(starpu_task_submit(made), 0);
    }
  }

  static void begin(std::uint64_t groups, prorata_balance balance) {
    prorata_phase phase{};
    phase.groups = groups;
    phase.balance = balance;
    ASSERT_EQ(prorata_begin_phase(0, &phase), 0);
  }

  starpu_codelet codelet_{};

 private:
  std::vector<std::unique_ptr<Args>> args_;
  bool running_ = false;
};

TEST_F(Policy, RunsTheTasksOfAGroupOnOneWorkerInOrder) {
  for (const prorata_balance balance : {PRORATA_PRORATA, PRORATA_UNIFORM, PRORATA_DYNAMIC}) {
    start(3);
    Groups g(200, 3);
    begin(200, balance);
    submit_all(g);
    starpu_task_wait_for_all();
    for (std::size_t i = 0; i < 200; ++i) {
      EXPECT_EQ(g.ran[i].tasks, 3);
      EXPECT_FALSE(g.ran[i].moved);
      EXPECT_EQ(g.ran[i].worker, g.groups[i].worker_plus_1 - 1);
    }
    TearDown();
  }
  start(1);
}

TEST_F(Policy, GivesEqualSharesUnderUniform) {
  start(2);
  Groups g(100, 1);
  begin(100, PRORATA_UNIFORM);
  submit_all(g);
  starpu_task_wait_for_all();
  int of[2] = {0, 0};
  for (const Ran& r : g.ran) ++of[r.worker];
  EXPECT_EQ(of[0], 50);
  EXPECT_EQ(of[1], 50);
}

TEST_F(Policy, RunsGroupsThatNobodyAnnounced) {
  start(2);
  Groups g(50, 2);
  submit_all(g);
  starpu_task_wait_for_all();
  for (const Ran& r : g.ran) EXPECT_EQ(r.tasks, 2);
}

TEST_F(Policy, RunsMoreGroupsThanAnnounced) {
  start(2);
  Groups g(50, 1);
  begin(7, PRORATA_UNIFORM);
  submit_all(g);
  starpu_task_wait_for_all();
  for (const Ran& r : g.ran) EXPECT_EQ(r.tasks, 1);
}

TEST_F(Policy, RunsTasksWithoutAGroupBesideOthers) {
  start(2);
  Groups g(50, 1);
  Ran plain;
  for (std::size_t i = 0; i < 50; ++i) {
    starpu_task* made = task(g.ran[i], 0);
    made->sched_data = &g.tags[i];
    ASSERT_EQ(starpu_task_submit(made), 0);
    ASSERT_EQ(starpu_task_submit(task(plain, 0)), 0);
  }
  starpu_task_wait_for_all();
  EXPECT_EQ(plain.tasks, 50);
  for (const Ran& r : g.ran) EXPECT_EQ(r.tasks, 1);
}

TEST_F(Policy, RunsTasksThatArePinnedToAWorker) {
  start(2);
  Ran on[2];
  for (int i = 0; i < 40; ++i) {
    starpu_task* made = task(on[i % 2], 0);
    made->execute_on_a_specific_worker = 1;
    made->workerid = static_cast<unsigned>(i % 2);
    ASSERT_EQ(starpu_task_submit(made), 0);
  }
  starpu_task_wait_for_all();
  for (int w : {0, 1}) {
    EXPECT_EQ(on[w].tasks, 20);
    EXPECT_EQ(on[w].worker, w);
    EXPECT_FALSE(on[w].moved);
  }
}

TEST_F(Policy, RunsTheLargerPriorityFirst) {
  start(1);
  // A first task keeps the only worker busy until all others are there.
  static std::atomic<bool> go{false};
  static std::vector<int> order;
  starpu_codelet gate, note;
  starpu_codelet_init(&gate);
  gate.cpu_funcs[0] = [](void*[], void*) {
    while (!go) {
    }
  };
  starpu_codelet_init(&note);
  note.cpu_funcs[0] = [](void*[], void* arg) {
    order.push_back(static_cast<int>(reinterpret_cast<std::intptr_t>(arg)));
  };
  starpu_task* first = starpu_task_create();
  first->cl = &gate;
  ASSERT_EQ(starpu_task_submit(first), 0);
  for (const int priority : {1, 5, 3, 5, -2}) {
    starpu_task* t = starpu_task_create();
    t->cl = &note;
    t->priority = priority;
    t->cl_arg = reinterpret_cast<void*>(static_cast<std::intptr_t>(priority));
    t->cl_arg_size = 0;
    ASSERT_EQ(starpu_task_submit(t), 0);
  }
  go = true;
  starpu_task_wait_for_all();
  EXPECT_EQ(order, (std::vector<int>{5, 5, 3, 1, -2}));
}

TEST_F(Policy, GroupsWaitForUrgentTasksAndTakeTurnsWithOthers) {
  start(1);
  // A group that keeps the only worker busy until all else is there.
  static std::atomic<bool> go{false};
  static std::string order;
  starpu_codelet gate, note;
  starpu_codelet_init(&gate);
  gate.cpu_funcs[0] = [](void*[], void*) {
    while (!go) {
    }
  };
  starpu_codelet_init(&note);
  note.cpu_funcs[0] = [](void*[], void* arg) { order += static_cast<char>(reinterpret_cast<std::intptr_t>(arg)); };
  Groups g(4, 2);
  const auto submit = [](starpu_codelet* codelet, char letter, int priority, prorata_tag* tag) {
    starpu_task* t = starpu_task_create();
    t->cl = codelet;
    t->cl_arg = reinterpret_cast<void*>(static_cast<std::intptr_t>(letter));
    t->priority = priority;
    t->sched_data = tag;
    ASSERT_EQ(starpu_task_submit(t), 0);
  };
  submit(&gate, 'g', 0, &g.tags[0]);
  for (std::size_t i = 1; i < 8; ++i) submit(&note, 'g', 0, &g.tags[i]);
  for (int i = 0; i < 3; ++i) submit(&note, 's', 0, nullptr);
  for (int i = 0; i < 3; ++i) submit(&note, 'u', 1, nullptr);
  go = true;
  starpu_task_wait_for_all();
  EXPECT_EQ(order, "uuugsggsggsgg");
}

TEST_F(Policy, StartsNoGroupBeforeTheWorkersPreviousOneHasFinished) {
  start(1);
  // The second task of each group becomes ready only after the first; meanwhile the next group's first is ready.
  Groups g(50, 2);
  static std::atomic<int> open{0};
  static std::atomic<bool> overlapped{false};
  starpu_codelet begin, end;
  starpu_codelet_init(&begin);
  begin.cpu_funcs[0] = [](void*[], void*) {
    if (open++ != 0) overlapped = true;
  };
  starpu_codelet_init(&end);
  end.cpu_funcs[0] = [](void*[], void*) { --open; };
  for (std::size_t i = 0; i < 50; ++i) {
    starpu_task* a = starpu_task_create();
    starpu_task* b = starpu_task_create();
    a->cl = &begin;
    b->cl = &end;
    a->sched_data = &g.tags[2 * i];
    b->sched_data = &g.tags[2 * i + 1];
    starpu_task_declare_deps_array(b, 1, &a);
    ASSERT_EQ(starpu_task_submit(a), 0);
    ASSERT_EQ(starpu_task_submit(b), 0);
  }
  starpu_task_wait_for_all();
  EXPECT_FALSE(overlapped);
}

// As the updates of a device's mini-batch, which CPU workers make.
TEST_F(Policy, AGroupDoesNotWaitForTasksThatItsWorkerCannotRun) {
  start(2);
  static std::atomic<bool> blocked, second_began;
  static std::atomic<int> left_on;
  blocked = second_began = false;
  left_on = -1;
  starpu_codelet blocker, others, second;
  for (starpu_codelet* c : {&blocker, &others, &second}) starpu_codelet_init(c);
  blocker.cpu_funcs[0] = [](void*[], void*) {  // keeps worker 1 until the second group has begun; 10 s at most
    blocked = true;
    for (int ms = 0; ms < 10'000 && !second_began; ++ms) starpu_sleep(1e-3F);
  };
  others.cpu_funcs[0] = [](void*[], void*) { left_on = starpu_worker_get_id(); };
  others.can_execute = [](unsigned worker, starpu_task*, unsigned) { return worker == 1 ? 1 : 0; };
  second.cpu_funcs[0] = [](void*[], void*) { second_began = left_on == -1; };

  Groups g(2, 2);
  for (prorata_group& group : g.groups) group.for_worker_plus_1 = 1;
  g.groups[1].tasks = 1;
  begin(2, PRORATA_PRORATA);
  starpu_task* blocking = starpu_task_create();
  blocking->cl = &blocker;
  blocking->execute_on_a_specific_worker = 1;
  blocking->workerid = 1;
  ASSERT_EQ(starpu_task_submit(blocking), 0);
  while (!blocked) starpu_sleep(1e-3F);  // else worker 1 might run what leaves its group first
  starpu_task* first = task(g.ran[0], 0);
  first->sched_data = &g.tags[0];
  starpu_task* leaves = starpu_task_create();
  leaves->cl = &others;
  leaves->sched_data = &g.tags[1];
  starpu_task_declare_deps_array(leaves, 1, &first);
  starpu_task* next = starpu_task_create();
  next->cl = &second;
  next->sched_data = &g.tags[2];
  for (starpu_task* t : {leaves, first, next}) ASSERT_EQ(starpu_task_submit(t), 0);
  starpu_task_wait_for_all();
  EXPECT_TRUE(second_began) << "the second group began only after the task that had left the first one";
  EXPECT_EQ(left_on, 1);
}

TEST_F(Policy, RefusesAPhaseUnderAnotherPolicyOrOfAnUnknownBalance) {
  start(1, starpu_sched_get_predefined_policies()[0]);
  prorata_phase phase{};
  EXPECT_EQ(prorata_begin_phase(0, &phase), -ENOSYS);
  EXPECT_TRUE(policy_report(0).workers.empty());
  TearDown();
  start(1);
  phase.balance = static_cast<prorata_balance>(17);
  EXPECT_EQ(prorata_begin_phase(0, &phase), -EINVAL);
}

TEST_F(Policy, DealsWithinASchedulingContextOfItsOwn) {
  start(2);
  int worker = 1;
  const unsigned ctx =
      starpu_sched_ctx_create(&worker, 1, "own", STARPU_SCHED_CTX_POLICY_STRUCT, &starpu_prorata_policy, 0);
  Groups g(30, 1);
  for (std::size_t i = 0; i < 30; ++i) {
    starpu_task* made = task(g.ran[i], 0);
    made->sched_data = &g.tags[i];
    made->sched_ctx = ctx;
    ASSERT_EQ(starpu_task_submit(made), 0);
  }
  starpu_task_wait_for_all();
  for (const Ran& r : g.ran) EXPECT_EQ(r.worker, 1);
  starpu_sched_ctx_delete(ctx);
}

}  // namespace
}  // namespace prorata
