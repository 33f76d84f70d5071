// What the policy `prorata` knows of one of StarPU's scheduling contexts, and the lists that it moves tasks between.
//
// A task with a tag waits with its group until a worker takes the group (bind); one without is dealt by SingleTasks.
// The ledgers say whether a worker may take a group, the speeds how long it is expected to need.
//
// Threads: `mutex` guards all of it but the atomic members. StarPU 1.3 tells a policy of workers that come, not of
// those that go: whoever pushes or pops asks workers_changed().
#pragma once

#include "scheduler/ledger.h"
#include "scheduler/prorata.h"
#include "scheduler/single_tasks.h"
#include "scheduler/size_ledger.h"
#include "scheduler/speed.h"

#include <starpu_scheduler.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace prorata {

constexpr std::int32_t kDealtSingly = -1;  // prorata_group::worker_plus_1 of a group that no worker can run

inline double now() { return starpu_timing_now() * 1e-6; }

// Null for a task that belongs to no group, also where the program keeps something else in sched_data.
prorata_tag* tag_of(const starpu_task* task);

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

struct Context {
  explicit Context(unsigned ctx) : sched_ctx(ctx), singles(starpu_worker_get_count()) {
    starpu_pthread_mutex_init(&mutex, nullptr);
  }
  ~Context() { starpu_pthread_mutex_destroy(&mutex); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  std::size_t slot(int worker) const { return static_cast<std::size_t>(index[static_cast<std::size_t>(worker)]); }
  WorkerState& at(int worker) { return state[static_cast<std::size_t>(worker)]; }

  void begin_phase(const prorata_phase& next);

  // The time function that the share by size goes by follows what was measured.
  void update_time(int worker);

  // Of a group that no worker has taken: adds a task that became ready.
  void enqueue_waiting(prorata_group* group, starpu_task* task);

  // The next group for a free worker, or null.
  prorata_group* next_group(int worker);
  void bind(prorata_group* group, int worker);
  // The first by position of those that are ready, or null.
  starpu_task* take_ready(WorkerState& own);

  // Deals a task without a group. `costs` as of now. Returns the worker that it was dealt to, or SingleTasks::kCommon.
  int deal(starpu_task* task, std::vector<TaskCost> costs);
  // The same where the worker has been chosen.
  void queue(int worker, starpu_task* task, std::vector<TaskCost> costs, double time);
  // Of its own and the common ones without a group, one that goes before groups, or null; none whose data are still on
  // their way.
  starpu_task* take_urgent(int worker);
  // Null if there is none; only an idle worker takes one whose data are on their way, or that was dealt to another.
  starpu_task* take_single(int worker, bool idle);

  bool workers_changed() const { return known_workers != starpu_sched_ctx_get_nworkers(sched_ctx); }
  void follow_workers();
  // What lies in queues is dealt anew; others finish the groups that those who leave had begun.
  void change_workers(std::vector<int> present);

  const unsigned sched_ctx;
  starpu_pthread_mutex_t mutex;
  std::atomic<std::uint64_t> events{1};  // that may be a reason for an idle worker to look again

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

 private:
  void begin_sizes(std::uint32_t round);
  void update_speeds();
  void set_workers(std::vector<int> ids);
  void insert(prorata_group* group);
  void release_own(int worker);
  prorata_group* unshared_group(int worker);
  starpu_task* take_stranded(int worker);
  void note_queues();
};

}  // namespace prorata
