// Workers on a simulated clock, driven by a ledger.
#pragma once

#include "scheduler/ledger.h"

#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace prorata::test {

struct Outcome {
  std::vector<std::int64_t> taken;
  std::int64_t total = 0;
  double end = 0;
};

struct Simulation {
  // What a worker truly needs for a mini-batch that it begins now.
  std::function<double(std::size_t worker, double now)> truth;
  // Told of each mini-batch when it is finished: here an estimator feeds the ledger.
  std::function<void(std::size_t worker, double seconds, double now)> finished = [](std::size_t, double, double) {};
  // Told before each mini-batch is taken.
  std::function<void(std::size_t worker, double now)> taking = [](std::size_t, double) {};

  // Runs a phase that has begun: whenever something has happened, every free worker asks.
  Outcome run(Ledger& ledger, std::size_t workers, std::int64_t minibatches) const {
    struct Running {
      double end, seconds;
      std::size_t worker;
      bool operator>(const Running& other) const { return end > other.end; }
    };
    std::priority_queue<Running, std::vector<Running>, std::greater<>> running;
    std::vector<bool> busy(workers, false);
    Outcome outcome{std::vector<std::int64_t>(workers, 0), 0, 0};
    for (double now = 0;; now = outcome.end) {
      for (bool again = true; again && outcome.total < minibatches;) {
        again = false;
        for (std::size_t w = 0; w < workers && outcome.total < minibatches; ++w) {
          if (busy[w] || !ledger.may_take(w, now)) continue;
          taking(w, now);
          ledger.take(w, now);
          busy[w] = again = true;
          ++outcome.taken[w];
          ++outcome.total;
          running.push({now + truth(w, now), truth(w, now), w});
        }
      }
      if (running.empty()) return outcome;
      const Running first = running.top();
      running.pop();
      outcome.end = first.end;
      busy[first.worker] = false;
      ledger.finish(first.worker);
      finished(first.worker, first.seconds, first.end);
    }
  }
};

}  // namespace prorata::test
