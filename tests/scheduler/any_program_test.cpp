// The policy under programs that know nothing of it: whatever StarPU lets a program do must come out right, every task
// must run, once, where it may, and nothing must hang.
#include "scheduler/prorata.h"
#include "scheduler/starpu_compat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace prorata {
namespace {

// What a test wants done, as a task's argument: it outlives the task.
using Work = std::function<void(void** buffers)>;

void run_work(void* buffers[], void* arg) { (*static_cast<Work*>(arg))(buffers); }

int& integer(void* buffer) { return *reinterpret_cast<int*>(STARPU_VARIABLE_GET_PTR(buffer)); }

// A codelet with one handle or none. `seconds` > 0: a model that says so of every worker.
struct Codelet : starpu_codelet {
  explicit Codelet(int buffers = 0, starpu_data_access_mode mode = STARPU_RW) : starpu_codelet{} {
    starpu_codelet_init(this);
    cpu_funcs[0] = run_work;
    cpu_funcs_name[0] = "run_work";
    nbuffers = buffers;
    modes[0] = mode;
    name = "any";
  }
  void set_model(starpu_perfmodel& of) { model = &of; }
};

// Takes ten milliseconds on worker 0 and ten more on each next one, it says.
double unlike(starpu_task*, starpu_perfmodel_arch* arch, unsigned) { return 1e4 * (1 + arch->devices[0].devid); }

class AnyProgram : public ::testing::Test {
 protected:
  AnyProgram() {
    // Each CPU worker has a model of its own.
    ::setenv("STARPU_PERF_MODEL_HOMOGENEOUS_CPU", "0", 1);
    ::setenv("STARPU_HOSTNAME", "any-program", 1);
    // How StarPU 1.4 finds ours by name; 1.3 has it in its table.
    ::setenv("STARPU_SCHED_LIB", PRORATA_POLICY_LIBRARY, 1);
    known_.symbol = "any_program_known";
    known_.type = STARPU_PER_ARCH;
    known_.arch_cost_function = unlike;
    history_.symbol = "any_program_history";
    history_.type = STARPU_HISTORY_BASED;
  }

  void start(int workers) {
    ::unsetenv("STARPU_SCHED");
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = workers;
    conf.ncuda = conf.nopencl = 0;
    conf.sched_policy = &starpu_prorata_policy;
    ASSERT_EQ(starpu_init(&conf), 0);
    running_ = true;
  }
  void TearDown() override {
    if (running_) starpu_shutdown();
    running_ = false;
  }

  // Not submitted yet.
  starpu_task* task(starpu_codelet& codelet, Work work, starpu_data_handle_t handle = nullptr) {
    work_.push_back(std::make_unique<Work>(std::move(work)));
    starpu_task* made = starpu_task_create();
    made->cl = &codelet;
    made->cl_arg = work_.back().get();
    made->handles[0] = handle;
    return made;
  }
  static void submit(starpu_task* task) { ASSERT_EQ(starpu_task_submit(task), 0); }

  // Keeps `worker` busy until open() is called.
  void shut(int worker, unsigned sched_ctx = 0) {
    const int inside = inside_;
    starpu_task* gate = task(gate_, [this](void**) {
      ++inside_;
      while (!open_) std::this_thread::yield();
    });
    gate->execute_on_a_specific_worker = 1;
    gate->workerid = static_cast<unsigned>(worker);
    gate->sched_ctx = sched_ctx;
    submit(gate);
    while (inside_ == inside) std::this_thread::yield();
  }
  void open() { open_ = true; }

  starpu_perfmodel known_{}, history_{};

 private:
  std::vector<std::unique_ptr<Work>> work_;
  Codelet gate_;
  std::atomic<int> inside_{0};
  std::atomic<bool> open_{false};
  bool running_ = false;
};

TEST_F(AnyProgram, HasThePolicyInStarPUsTableWhereStarPUDoesNotLoadIt) {
  int ours = 0, replaced = 0;
  for (starpu_sched_policy** p = starpu_sched_get_predefined_policies(); *p; ++p) {
    if (std::strcmp((*p)->policy_name, "prorata") == 0) ++ours;
    if (std::strcmp((*p)->policy_name, "graph_test") == 0) ++replaced;
  }
#ifdef PRORATA_STARPU_LOADS_POLICIES
  EXPECT_EQ(ours, 0);
  EXPECT_EQ(replaced, 1);
#else
  EXPECT_EQ(ours, 1);
  EXPECT_EQ(replaced, 0);
#endif
}

TEST_F(AnyProgram, FindsThePolicyByName) {
  ::setenv("STARPU_SCHED", "prorata", 1);
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.ncpus = 1;
  ASSERT_EQ(starpu_init(&conf), 0);
  EXPECT_STREQ(starpu_sched_ctx_get_sched_policy(0)->policy_name, "prorata");
  starpu_shutdown();
}

// Random programs on a few integers: what comes out must be what the same accesses one after the other give.
TEST_F(AnyProgram, ComputesWhatTheSameTasksInOrderDo) {
  for (const int workers : {1, 2, 4}) {
    start(workers);
    Codelet plain(1), known(1), measured(1);
    known.set_model(known_);
    measured.set_model(history_);
    starpu_codelet* codelets[] = {&plain, &known, &measured};
    constexpr std::size_t kData = 6;
    std::array<int, kData> data{}, expected{};
    std::array<starpu_data_handle_t, kData> handles;
    for (std::size_t i = 0; i < kData; ++i)
      starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(&data[i]),
                                    sizeof(int));
    std::mt19937 random(static_cast<unsigned>(workers));
    for (int n = 0; n < 3000; ++n) {
      const std::size_t i = random() % kData;
      expected[i] = expected[i] * 3 + n % 1000;
      expected[i] %= 1'000'000;
      starpu_task* made = task(
          *codelets[random() % 3],
          [n](void** buffers) {
            int& value = integer(buffers[0]);
            value = (value * 3 + n % 1000) % 1'000'000;
          },
          handles[i]);
      made->priority = static_cast<int>(random() % 11) - 5;
      submit(made);
    }
    for (starpu_data_handle_t handle : handles) starpu_data_unregister(handle);
    EXPECT_EQ(data, expected) << workers << " workers";
    TearDown();
  }
}

TEST_F(AnyProgram, RunsTheLargerPriorityFirstAmongTasksThatWereDealt) {
  start(1);
  Codelet codelet, unknown;
  codelet.set_model(known_);
  std::vector<int> order;
  shut(0);
  for (const int priority : {1, 5, 3, 5, -2, 4})
    for (Codelet* c : {&codelet, &unknown}) {
      starpu_task* made = task(*c, [&order, priority](void**) { order.push_back(priority); });
      made->priority = priority;
      submit(made);
    }
  open();
  starpu_task_wait_for_all();
  EXPECT_EQ(order, (std::vector<int>{5, 5, 5, 5, 4, 4, 3, 3, 1, 1, -2, -2}));
}

TEST_F(AnyProgram, SaysWhatItExpectsOfATaskThatItDeals) {
  start(2);
  Codelet codelet;
  codelet.set_model(known_);
  starpu_task* made = task(codelet, [](void**) {});
  made->destroy = 0;
  made->detach = 0;
  submit(made);
  ASSERT_EQ(starpu_task_wait(made), 0);
  EXPECT_DOUBLE_EQ(made->predicted, 1e4);  // microseconds, on the faster worker
  starpu_task_destroy(made);
}

TEST_F(AnyProgram, PassesOverAWorkerThatIsBusyWithItsOwn) {
  start(2);
  Codelet codelet;
  codelet.set_model(known_);
  std::atomic<int> ran{0};
  shut(0);
  for (int n = 0; n < 20; ++n) submit(task(codelet, [&ran](void**) { ++ran; }));
  // Worker 1 does all, though most were dealt to the faster one, which does not come.
  while (ran < 20) std::this_thread::yield();
  open();
  starpu_task_wait_for_all();
}

TEST_F(AnyProgram, MeasuresAModelThatKnowsNothingYetOnEveryWorker) {
  start(2);
  Codelet codelet(1);
  codelet.set_model(history_);
  int data[2] = {0, 0};
  starpu_data_handle_t handles[2];
  for (std::size_t i = 0; i < 2; ++i)
    starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(&data[i]),
                                  sizeof(int));
  // Each worker is kept until the other has one as well.
  for (int n = 0; n < 15; ++n) {
    std::atomic<int> met{0};
    for (starpu_data_handle_t handle : handles)
      submit(task(
          codelet,
          [&met](void** buffers) {
            ++integer(buffers[0]);
            ++met;
            while (met < 2) std::this_thread::yield();
          },
          handle));
    starpu_task_wait_for_all();
  }
  for (starpu_data_handle_t handle : handles) starpu_data_unregister(handle);
  EXPECT_EQ(data[0], 15);
  EXPECT_EQ(data[1], 15);
}

TEST_F(AnyProgram, RunsATaskOnlyWhereItMay) {
  start(4);
  Codelet by_ids, by_worker, by_implementation;
  by_ids.set_model(known_);
  by_worker.can_execute = [](unsigned worker, starpu_task*, unsigned) { return worker == 3 ? 1 : 0; };
  by_worker.set_model(known_);
  // Worker 0 has the first implementation, all others the second.
  static std::array<std::atomic<int>, 2> wrong;
  by_implementation.cpu_funcs[0] = [](void*[], void* arg) {
    if (starpu_worker_get_id() != 0) ++wrong[0];
    run_work(nullptr, arg);
  };
  by_implementation.cpu_funcs[1] = [](void*[], void* arg) {
    if (starpu_worker_get_id() == 0) ++wrong[1];
    run_work(nullptr, arg);
  };
  by_implementation.can_execute = [](unsigned worker, starpu_task*, unsigned implementation) {
    return (worker == 0) == (implementation == 0) ? 1 : 0;
  };
  std::atomic<int> ran{0}, astray{0};
  std::uint32_t ids = 1u << 1 | 1u << 2;
  for (int n = 0; n < 200; ++n) {
    starpu_task* made = task(by_ids, [&](void**) {
      ++ran;
      if (const int w = starpu_worker_get_id(); w != 1 && w != 2) ++astray;
    });
    made->workerids = &ids;
    made->workerids_len = 1;
    submit(made);
    submit(task(by_worker, [&](void**) {
      ++ran;
      if (starpu_worker_get_id() != 3) ++astray;
    }));
    submit(task(by_implementation, [&](void**) { ++ran; }));
  }
  starpu_task_wait_for_all();
  EXPECT_EQ(ran, 600);
  EXPECT_EQ(astray, 0);
  EXPECT_EQ(wrong[0], 0);
  EXPECT_EQ(wrong[1], 0);
}

TEST_F(AnyProgram, LetsStarPURefuseWhatNobodyCanRun) {
  start(2);
  Codelet elsewhere;
  elsewhere.where = STARPU_CUDA;
  elsewhere.cuda_funcs[0] = run_work;
  starpu_task* made = task(elsewhere, [](void**) {});
  EXPECT_EQ(starpu_task_submit(made), -ENODEV);
  made->destroy = 0;
  starpu_task_destroy(made);
}

TEST_F(AnyProgram, KeepsATaskThatNobodyCanRunAtPresent) {
  start(2);
  static std::atomic<bool> may;
  Codelet plain;
  may = true;
  Codelet codelet;
  codelet.can_execute = [](unsigned, starpu_task*, unsigned) { return may ? 1 : 0; };
  std::atomic<int> ran{0};
  starpu_task* first = task(plain, [](void**) { may = false; });
  starpu_task* made = task(codelet, [&ran](void**) { ++ran; });
  starpu_task_declare_deps_array(made, 1, &first);
  submit(made);
  submit(first);
  Codelet other;
  for (int n = 0; n < 10; ++n) submit(task(other, [](void**) {}));
  starpu_task_wait_for_n_submitted(1);
  EXPECT_EQ(ran, 0);
  may = true;
  starpu_task_wait_for_all();
  EXPECT_EQ(ran, 1);
}

TEST_F(AnyProgram, RunsPinnedTasksBesideOthers) {
  start(3);
  Codelet codelet;
  codelet.set_model(known_);
  std::atomic<int> ran{0}, astray{0};
  for (int n = 0; n < 300; ++n) {
    const auto worker = static_cast<unsigned>(n % 3);
    starpu_task* pinned = task(codelet, [&, worker](void**) {
      ++ran;
      if (starpu_worker_get_id() != static_cast<int>(worker)) ++astray;
    });
    pinned->execute_on_a_specific_worker = 1;
    pinned->workerid = worker;
    submit(pinned);
    submit(task(codelet, [&ran](void**) { ++ran; }));
  }
  starpu_task_wait_for_all();
  EXPECT_EQ(ran, 600);
  EXPECT_EQ(astray, 0);
}

TEST_F(AnyProgram, RunsTasksThatCommuteReduceCopyAndSplit) {
  start(3);
  Codelet commute(1, static_cast<starpu_data_access_mode>(STARPU_RW | STARPU_COMMUTE)), reduce(1, STARPU_REDUX);
  commute.set_model(known_);
  starpu_codelet zero{}, add{};
  starpu_codelet_init(&zero);
  zero.cpu_funcs[0] = [](void* buffers[], void*) { integer(buffers[0]) = 0; };
  zero.nbuffers = 1;
  zero.modes[0] = STARPU_W;
  starpu_codelet_init(&add);
  add.cpu_funcs[0] = [](void* buffers[], void*) { integer(buffers[0]) += integer(buffers[1]); };
  add.nbuffers = 2;
  add.modes[0] = STARPU_RW;
  add.modes[1] = STARPU_R;
  int commuted = 5, reduced = 7, copied = 0;
  std::vector<int> vector(12, 1);
  starpu_data_handle_t a, b, c, v;
  starpu_variable_data_register(&a, STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(&commuted), sizeof(int));
  starpu_variable_data_register(&b, STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(&reduced), sizeof(int));
  starpu_variable_data_register(&c, STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(&copied), sizeof(int));
  starpu_vector_data_register(&v, STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(vector.data()), 12, sizeof(int));
  starpu_data_set_reduction_methods(b, &add, &zero);
  for (int n = 0; n < 300; ++n) {
    submit(task(
        commute, [](void** buffers) { ++integer(buffers[0]); }, a));
    submit(task(
        reduce, [](void** buffers) { integer(buffers[0]) += 2; }, b));
  }
  ASSERT_EQ(starpu_data_cpy(c, a, 1, nullptr, nullptr), 0);

  starpu_data_filter filter{};
  filter.filter_func = starpu_vector_filter_block;
  filter.nchildren = 4;
  starpu_data_partition(v, &filter);
  Codelet part(1);
  for (int n = 0; n < 40; ++n)
    submit(task(
        part,
        [](void** buffers) {
          auto* values = reinterpret_cast<int*>(STARPU_VECTOR_GET_PTR(buffers[0]));
          for (std::size_t i = 0; i < STARPU_VECTOR_GET_NX(buffers[0]); ++i) ++values[i];
        },
        starpu_data_get_sub_data(v, 1, n % 4)));
  starpu_data_unpartition(v, STARPU_MAIN_RAM);
  for (starpu_data_handle_t handle : {a, b, c, v}) starpu_data_unregister(handle);
  EXPECT_EQ(commuted, 305);
  EXPECT_EQ(copied, 305);
  EXPECT_EQ(reduced, 607);
  EXPECT_EQ(vector, std::vector<int>(12, 11));
}

TEST_F(AnyProgram, RunsTasksThatOthersSubmitOrWaitForByTag) {
  start(2);
  Codelet codelet, count;
  count.cpu_funcs[0] = [](void*[], void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
  std::atomic<int> inner{0}, called{0}, tagged{0}, early{0};
  for (int n = 0; n < 50; ++n) {
    starpu_task* made = task(codelet, [&](void**) {
      starpu_task* child = starpu_task_create();
      child->cl = &count;
      child->cl_arg = &inner;
      ASSERT_EQ(starpu_task_submit(child), 0);
    });
    made->callback_func = [](void* arg) {
      starpu_task* empty = starpu_task_create();  // no codelet, only a callback
      empty->callback_func = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
      empty->callback_arg = arg;
      ASSERT_EQ(starpu_task_submit(empty), 0);
    };
    made->callback_arg = &called;
    submit(made);
  }
  for (starpu_tag_t n = 0; n < 50; ++n) {
    const starpu_tag_t first = 2 * n, second = 2 * n + 1;
    auto done = std::make_shared<std::atomic<bool>>(false);
    starpu_tag_declare_deps(second, 1, first);
    for (const starpu_tag_t tag : {second, first}) {
      starpu_task* made = task(codelet, [&, done, is_first = tag == first](void**) {
        if (is_first)
          *done = true;
        else if (!*done)
          ++early;
        ++tagged;
      });
      made->use_tag = 1;
      made->tag_id = tag;
      submit(made);
    }
  }
  starpu_task_wait_for_all();
  EXPECT_EQ(inner, 50);
  EXPECT_EQ(called, 50);
  EXPECT_EQ(tagged, 100);
  EXPECT_EQ(early, 0);
}

TEST_F(AnyProgram, RunsParallelCodeletsOnOneWorkerAndBundlesLikeOtherTasks) {
  start(2);
  Codelet spmd, fork_join, single;
  spmd.type = STARPU_SPMD;
  fork_join.type = STARPU_FORKJOIN;
  spmd.max_parallelism = fork_join.max_parallelism = 8;
  std::atomic<int> ran{0}, wider{0};
  starpu_task_bundle_t bundle;
  starpu_task_bundle_create(&bundle);
  std::vector<starpu_task*> bundled;
  for (int n = 0; n < 40; ++n) {
    for (Codelet* codelet : {&spmd, &fork_join})
      submit(task(*codelet, [&](void**) {
        ++ran;
        if (starpu_combined_worker_get_size() != 1) ++wider;
      }));
    bundled.push_back(task(single, [&ran](void**) { ++ran; }));
    ASSERT_EQ(starpu_task_bundle_insert(bundle, bundled.back()), 0);
  }
  for (starpu_task* made : bundled) submit(made);
  starpu_task_bundle_close(bundle);
  starpu_task_wait_for_all();
  EXPECT_EQ(ran, 120);
  EXPECT_EQ(wider, 0);
}

TEST_F(AnyProgram, RunsATaskThatIsRegenerated) {
  start(2);
  Codelet codelet;
  static std::atomic<int> left;
  left = 100;
  starpu_task* made = task(codelet, [](void**) { --left; });
  made->destroy = 0;
  made->regenerate = 1;
  made->callback_func = [](void*) {
    if (left == 0) starpu_task_get_current()->regenerate = 0;
  };
  submit(made);
  while (left > 0) std::this_thread::yield();
  starpu_task_wait_for_all();
  EXPECT_EQ(left, 0);
  starpu_task_destroy(made);
}

TEST_F(AnyProgram, KeepsSchedulingContextsApart) {
  start(4);
  int first[] = {0, 1}, second[] = {2, 3};
  const unsigned a = starpu_sched_ctx_create(first, 2, "a", STARPU_SCHED_CTX_POLICY_STRUCT, &starpu_prorata_policy, 0);
  const unsigned b = starpu_sched_ctx_create(second, 2, "b", STARPU_SCHED_CTX_POLICY_NAME, "prorata", 0);
  Codelet codelet, unknown;
  codelet.set_model(known_);
  std::atomic<int> ran{0}, astray{0};
  for (int n = 0; n < 200; ++n)
    for (const unsigned ctx : {a, b, 0u})
      for (Codelet* c : {&codelet, &unknown}) {
        starpu_task* made = task(*c, [&, ctx](void**) {
          ++ran;
          const int w = starpu_worker_get_id();
          if ((ctx == a && w > 1) || (ctx == b && w < 2)) ++astray;
        });
        made->sched_ctx = ctx;
        submit(made);
      }
  starpu_task_wait_for_all();
  starpu_sched_ctx_delete(a);
  starpu_sched_ctx_delete(b);
  EXPECT_EQ(ran, 1200);
  EXPECT_EQ(astray, 0);
}

// Tasks of both kinds, in the common queue and in the workers' own, and groups, wait while the workers change.
TEST_F(AnyProgram, LosesNothingWhenWorkersComeAndGo) {
  start(4);
  int workers[] = {0, 1};
  const unsigned ctx =
      starpu_sched_ctx_create(workers, 2, "own", STARPU_SCHED_CTX_POLICY_STRUCT, &starpu_prorata_policy, 0);
  prorata_phase phase{};
  phase.balance = PRORATA_UNIFORM;  // which waits for each worker's share
  phase.groups = 300;
  ASSERT_EQ(prorata_begin_phase(ctx, &phase), 0);
  Codelet codelet, unknown;
  codelet.set_model(known_);
  std::atomic<int> ran{0};
  std::vector<prorata_group> groups(300);
  std::vector<prorata_tag> tags(600);
  std::uint64_t made_groups = 0;
  const auto submit_some = [&] {
    for (int n = 0; n < 50; ++n) {
      for (Codelet* c : {&codelet, &unknown}) {
        starpu_task* made = task(*c, [&ran](void**) { ++ran; });
        made->sched_ctx = ctx;
        submit(made);
      }
      prorata_group& group = groups[made_groups];
      group.sequence = made_groups;
      group.tasks = 2;
      for (std::uint32_t t = 0; t < 2; ++t) {
        prorata_tag& tag = tags[2 * made_groups + t];
        tag = PRORATA_TAG(&group, t);
        starpu_task* made = task(unknown, [&ran](void**) { ++ran; });
        made->sched_ctx = ctx;
        made->sched_data = &tag;
        submit(made);
      }
      ++made_groups;
    }
  };
  const auto expect_all = [&](int count) {
    starpu_task_wait_for_all_in_ctx(ctx);
    EXPECT_EQ(ran, count);
  };
  int second = 1, third = 2, both[] = {0, 2};
  shut(0, ctx);
  shut(1, ctx);
  submit_some();
  starpu_sched_ctx_remove_workers(&second, 1, ctx);
  open();
  expect_all(200);
  starpu_sched_ctx_add_workers(&third, 1, ctx);
  submit_some();
  expect_all(400);
  submit_some();
  starpu_sched_ctx_remove_workers(both, 2, ctx);  // nobody is left
  submit_some();
  starpu_sched_ctx_add_workers(&second, 1, ctx);
  expect_all(800);
  submit_some();
  starpu_sched_ctx_add_workers(both, 2, ctx);
  submit_some();
  expect_all(1200);
  starpu_sched_ctx_delete(ctx);
}

TEST_F(AnyProgram, KeepsAStrangersSchedDataApartFromItsOwn) {
  start(2);
  Codelet codelet;
  std::atomic<int> ran{0};
  struct Stranger {
    std::uint64_t value = 17;
    void* pointer = nullptr;
  } stranger;
  char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int n = 0; n < 100; ++n)
    for (void* data : {static_cast<void*>(nullptr), reinterpret_cast<void*>(static_cast<std::intptr_t>(n)),
                       static_cast<void*>(&stranger), static_cast<void*>(bytes), static_cast<void*>(bytes + 3)}) {
      starpu_task* made = task(codelet, [&ran](void**) { ++ran; });
      made->sched_data = data;
      submit(made);
    }
  starpu_task_wait_for_all();
  EXPECT_EQ(ran, 500);
}

// Without fairness, one kind that renews itself would keep the other waiting for ever.
TEST_F(AnyProgram, LetsNeitherGroupsNorTasksWithoutOneStarveTheOthers) {
  start(1);
  static Codelet codelet;
  struct Endless {
    prorata_group group{};
    prorata_tag tag{};
    std::atomic<bool>* until;
    bool grouped;
    void submit_next() {
      static Work nothing = [](void**) {};
      group = {};
      group.tasks = 1;
      tag = PRORATA_TAG(&group, 0);
      starpu_task* made = starpu_task_create();
      made->cl = &codelet;
      made->cl_arg = &nothing;
      if (grouped) made->sched_data = &tag;
      made->callback_arg = this;
      made->callback_func = [](void* arg) {
        auto* self = static_cast<Endless*>(arg);
        if (!*self->until) self->submit_next();
      };
      ASSERT_EQ(starpu_task_submit(made), 0);
    }
  };
  for (const bool grouped : {true, false}) {
    std::atomic<bool> done{false};
    Endless endless;
    endless.until = &done;
    endless.grouped = grouped;
    endless.submit_next();
    prorata_group group{};
    group.tasks = 1;
    prorata_tag tag = PRORATA_TAG(&group, 0);
    starpu_task* other = task(codelet, [&done](void**) { done = true; });
    if (!grouped) other->sched_data = &tag;
    submit(other);
    starpu_task_wait_for_all();
    EXPECT_TRUE(done);
  }
}

// A group whose tasks no worker can all run is dealt task by task; one that only slow or excluded workers can run,
// there.
TEST_F(AnyProgram, RunsGroupsThatDoNotSuitEveryWorker) {
  for (const prorata_balance balance : {PRORATA_PRORATA, PRORATA_UNIFORM, PRORATA_DYNAMIC}) {
    start(2);
    prorata_phase phase{};
    phase.groups = 90;
    phase.balance = balance;
    ASSERT_EQ(prorata_begin_phase(0, &phase), 0);
    Codelet on[2];
    on[0].can_execute = [](unsigned worker, starpu_task*, unsigned) { return worker == 0 ? 1 : 0; };
    on[1].can_execute = [](unsigned worker, starpu_task*, unsigned) { return worker == 1 ? 1 : 0; };
    std::atomic<int> ran{0}, astray{0};
    std::vector<prorata_group> groups(90);
    std::vector<prorata_tag> tags(180);
    for (std::size_t g = 0; g < 90; ++g) {
      groups[g].sequence = g;
      groups[g].tasks = 2;
      for (std::uint32_t t = 0; t < 2; ++t) {
        const auto worker = g % 3 < 2 ? g % 3 : t;  // groups for 0, for 1, and for both
        starpu_task* made = task(on[worker], [&, worker](void**) {
          ++ran;
          if (starpu_worker_get_id() != static_cast<int>(worker)) ++astray;
        });
        tags[2 * g + t] = PRORATA_TAG(&groups[g], t);
        made->sched_data = &tags[2 * g + t];
        submit(made);
      }
    }
    starpu_task_wait_for_all();
    EXPECT_EQ(ran, 180);
    EXPECT_EQ(astray, 0);
    TearDown();
  }
}

}  // namespace
}  // namespace prorata
