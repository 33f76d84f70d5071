// Tasks that belong to no group: each is dealt, when it is ready, to the worker that is expected to finish it first.
// Plain C++, no StarPU, no clock of its own; tasks are opaque.
//
// Dealing. A worker is expected to begin a task when it has done what it has begun and what is queued there of the same
// or a larger priority, and when the task's data have arrived. Among the ends so expected the earliest counts, plus
// once more the transfer, for the bus is everybody's: the rule of StarPU's dmda (alpha = beta = 1), with the queue by
// priority of its dmdasd. A task of which some able worker's time is not known goes to a common queue, to whoever is
// free first: so each gets its measurements, and nothing depends on a guess.
// Order. A worker takes from its own queue and the common one the largest priority first, of equals the oldest.
// Stealing. Expectations fail, so a worker that would idle takes a task from another's queue when it would finish it
// before the other. Why dealing at once and stealing, not late binding alone: only a task that has its worker can have
// its data sent ahead, and the dealing is cheap, since it asks only for sums. Stealing makes it safe: whoever is late,
// with what it runs or in coming for what is queued, is expected to be late as long again. So a worker that StarPU has
// put to sleep, or that is in another context, loses its queue in the end, and no task waits for ever.
//
// Threads: none; the policy's lock guards it. Workers are indices below the number given. Times are seconds since any
// fixed moment. Cost: choose() is O(workers x priorities queued), pop() is O(log), steal() is O(workers x kLook).
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <span>
#include <vector>

struct starpu_task;

namespace prorata {

// What one worker needs for a task.
struct TaskCost {
  double seconds;   // infinite: it cannot run it; NaN: not known
  double transfer;  // until the data are where it needs them, if they were sent now
};

class SingleTasks {
 public:
  static constexpr int kCommon = -1;

  explicit SingleTasks(std::size_t workers) : workers_(workers) {}

  // The worker that should have a task, or kCommon. `costs` has an entry a worker.
  int choose(std::span<const TaskCost> costs, int priority, double now) const;
  // Queues it there. A task that is pushed again, having been handed out, counts as not handed out.
  void push(int worker, starpu_task* task, int priority, std::vector<TaskCost> costs, double now);

  // The next task of its own queue and the common one, or null where its priority is less than `least`.
  starpu_task* first(int worker, int least = INT_MIN);
  // Takes first(worker). It counts as begun until finish().
  starpu_task* pop(int worker, double now);
  // For a worker that has nothing else to do: another's task, or null.
  starpu_task* steal(int worker, double now);
  // The worker was given a task by another way; `seconds` may be NaN.
  void begin(int worker, starpu_task* task, double seconds, double now);
  // Tasks that never began are ignored.
  void finish(starpu_task* task, double now);

  // Until when the worker is kept by something that is no task of these, as a group.
  void occupy(int worker, double until);
  void release(int worker, double now);

  // All that is queued, the largest priority first, of equals the oldest; afterwards nothing is.
  std::vector<starpu_task*> take_all();
  std::size_t dealt() const { return dealt_; }  // tasks in the workers' own queues
  bool any_begun() const { return begun_ != 0; }

 private:
  static constexpr int kLook = 64;  // tasks of a queue that a thief looks at from the front, besides the last one

  struct Item {
    starpu_task* task;
    std::uint64_t sequence;
    std::vector<TaskCost> costs;
  };
  struct Level {
    std::list<Item> items;
    double seconds = 0;  // of all, on the worker whose queue it is
  };
  using Queue = std::map<int, Level, std::greater<>>;  // by priority; no level is empty
  struct Begun {
    starpu_task* task;
    double seconds;
  };
  struct Worker {
    Queue queue;
    std::vector<Begun> begun;
    double free_at = 0;  // the expected end of what has begun; where nothing has, since when the queue waits
    bool occupied = false;
    double occupied_until = 0;
  };
  using Common = std::map<std::vector<bool>, Queue>;
  struct Place {  // of the task that is next: at the front of that queue, a common one unless `shared` is the end
    Queue* queue;
    Common::iterator shared;
  };
  struct Find {  // an item that may be stolen
    int victim;
    Queue::iterator level;
    std::list<Item>::iterator item;
    double gain;
  };

  Place next(int worker);
  double until_free(const Worker& worker, double now) const;
  void look(int victim, int thief, double now, std::vector<Find>& finds);
  Item remove(Queue& queue, Queue::iterator level, std::list<Item>::iterator item, int worker);
  std::size_t slot(int worker) const { return static_cast<std::size_t>(worker); }

  std::vector<Worker> workers_;
  Common common_;  // by the set of workers that can run what is in it; none is empty
  std::uint64_t pushed_ = 0;
  std::size_t dealt_ = 0;
  std::size_t begun_ = 0;
};

}  // namespace prorata
