#include "scheduler/single_tasks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace prorata {
namespace {

double begin_to_end(double start, const TaskCost& cost, double now) {
  return std::max(start, now + cost.transfer) + cost.seconds;
}

}  // namespace

// Whoever is late is expected to be late as long again.
double SingleTasks::until_free(const Worker& worker, double now) const {
  double seconds = 0;
  if (!worker.begun.empty() || (!worker.occupied && !worker.queue.empty())) seconds += std::abs(worker.free_at - now);
  if (worker.occupied) seconds += std::abs(worker.occupied_until - now);
  return seconds;
}

int SingleTasks::choose(std::span<const TaskCost> costs, int priority, double now) const {
  int best = kCommon;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const TaskCost& cost = costs[w];
    if (std::isnan(cost.seconds)) return kCommon;
    if (std::isinf(cost.seconds)) continue;
    double start = now + until_free(workers_[w], now);
    for (const auto& [of, level] : workers_[w].queue) {
      if (of < priority) break;
      start += level.seconds;
    }
    const double sum = begin_to_end(start, cost, now) + cost.transfer;
    if (sum < least) {
      least = sum;
      best = static_cast<int>(w);
    }
  }
  return best;
}

void SingleTasks::push(int worker, starpu_task* task, int priority, std::vector<TaskCost> costs, double now) {
  finish(task, now);
  Queue* queue;
  double seconds = 0;
  if (worker == kCommon) {
    std::vector<bool> able;
    for (const TaskCost& cost : costs) able.push_back(!std::isinf(cost.seconds));
    queue = &common_[std::move(able)];
  } else {
    Worker& own = workers_[slot(worker)];
    if (own.queue.empty() && own.begun.empty()) own.free_at = now;
    queue = &own.queue;
    seconds = costs[slot(worker)].seconds;
    ++dealt_;
  }
  Level& level = (*queue)[priority];
  level.items.push_back({task, pushed_++, std::move(costs)});
  level.seconds += seconds;
}

// `worker` is the one whose queue it is.
SingleTasks::Item SingleTasks::remove(Queue& queue, Queue::iterator level, std::list<Item>::iterator item, int worker) {
  Item taken = std::move(*item);
  level->second.items.erase(item);
  if (worker != kCommon) {
    level->second.seconds -= taken.costs[slot(worker)].seconds;
    --dealt_;
  }
  if (level->second.items.empty()) queue.erase(level);
  return taken;
}

SingleTasks::Place SingleTasks::next(int worker) {
  Queue* from = nullptr;
  auto shared = common_.end();
  const auto consider = [&from](Queue& queue) {
    if (from) {
      const auto& [priority, level] = *queue.begin();
      const auto& [best_priority, best_level] = *from->begin();
      if (priority < best_priority) return false;
      if (priority == best_priority && level.items.front().sequence > best_level.items.front().sequence) return false;
    }
    from = &queue;
    return true;
  };
  if (!workers_[slot(worker)].queue.empty()) consider(workers_[slot(worker)].queue);
  for (auto it = common_.begin(); it != common_.end(); ++it)
    if (it->first[slot(worker)] && consider(it->second)) shared = it;
  return {from, shared};
}

starpu_task* SingleTasks::first(int worker, int least) {
  const Place place = next(worker);
  if (!place.queue || place.queue->begin()->first < least) return nullptr;
  return place.queue->begin()->second.items.front().task;
}

starpu_task* SingleTasks::pop(int worker, double now) {
  const auto [from, shared] = next(worker);
  if (!from) return nullptr;
  const bool own = shared == common_.end();
  const auto level = from->begin();
  const Item item = remove(*from, level, level->second.items.begin(), own ? worker : kCommon);
  if (!own && from->empty()) common_.erase(shared);
  begin(worker, item.task, item.costs[slot(worker)].seconds, now);
  return item.task;
}

// What `thief` would finish before `victim`: the first such from the front, for it has the largest priority, or else
// the last, which the victim would finish latest.
void SingleTasks::look(int victim, int thief, double now, std::vector<Find>& finds) {
  Worker& owner = workers_[slot(victim)];
  double end = now + until_free(owner, now);
  // Of equally fast workers the one that has not begun something else is better.
  const bool busy = !owner.begun.empty() || owner.occupied;
  const auto gain = [&](const Item& item, double owners_end) {
    const double own_end = begin_to_end(now, item.costs[slot(thief)], now);
    return own_end < owners_end || (busy && own_end == owners_end) ? owners_end - own_end : -1;
  };
  int looked = 0;
  for (auto level = owner.queue.begin(); level != owner.queue.end(); ++level)
    for (auto item = level->second.items.begin(); item != level->second.items.end(); ++item) {
      if (++looked > kLook) {
        double total = now + until_free(owner, now);
        for (const auto& entry : owner.queue) total += entry.second.seconds;
        const auto last = std::prev(owner.queue.end());
        const auto back = std::prev(last->second.items.end());
        if (const double g = gain(*back, total); g >= 0) finds.push_back({victim, last, back, g});
        return;
      }
      end = begin_to_end(end, item->costs[slot(victim)], now);
      if (const double g = gain(*item, end); g >= 0) {
        finds.push_back({victim, level, item, g});
        return;
      }
    }
}

starpu_task* SingleTasks::steal(int worker, double now) {
  if (dealt_ == 0) return nullptr;
  std::vector<Find> finds;
  for (std::size_t v = 0; v < workers_.size(); ++v)
    if (static_cast<int>(v) != worker && !workers_[v].queue.empty()) look(static_cast<int>(v), worker, now, finds);
  const auto best = std::max_element(finds.begin(), finds.end(), [](const Find& a, const Find& b) {
    return std::pair(a.level->first, a.gain) < std::pair(b.level->first, b.gain);
  });
  if (best == finds.end()) return nullptr;
  const Item item = remove(workers_[slot(best->victim)].queue, best->level, best->item, best->victim);
  begin(worker, item.task, item.costs[slot(worker)].seconds, now);
  return item.task;
}

void SingleTasks::begin(int worker, starpu_task* task, double seconds, double now) {
  Worker& own = workers_[slot(worker)];
  if (!std::isfinite(seconds)) seconds = 0;
  own.free_at = (own.begun.empty() ? now : std::max(own.free_at, now)) + seconds;
  own.begun.push_back({task, seconds});
  ++begun_;
}

void SingleTasks::finish(starpu_task* task, double now) {
  if (begun_ == 0) return;
  for (Worker& own : workers_) {
    const auto found = std::find_if(own.begun.begin(), own.begun.end(), [task](auto& b) { return b.task == task; });
    if (found == own.begun.end()) continue;
    own.begun.erase(found);
    --begun_;
    own.free_at = now;
    for (const Begun& b : own.begun) own.free_at += b.seconds;
    return;
  }
}

void SingleTasks::occupy(int worker, double until) {
  workers_[slot(worker)].occupied = true;
  workers_[slot(worker)].occupied_until = until;
}

void SingleTasks::release(int worker, double now) {
  Worker& own = workers_[slot(worker)];
  if (own.begun.empty()) own.free_at = now;
  own.occupied = false;
}

std::vector<starpu_task*> SingleTasks::take_all() {
  std::vector<std::pair<int, Item>> all;
  const auto drain = [&all](Queue& queue) {
    for (auto& [priority, level] : queue)
      for (Item& item : level.items) all.emplace_back(priority, std::move(item));
    queue.clear();
  };
  for (Worker& worker : workers_) drain(worker.queue);
  for (auto& [able, queue] : common_) drain(queue);
  common_.clear();
  dealt_ = 0;
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second.sequence < b.second.sequence;
  });
  std::vector<starpu_task*> tasks;
  for (const auto& [priority, item] : all) tasks.push_back(item.task);
  return tasks;
}

}  // namespace prorata
