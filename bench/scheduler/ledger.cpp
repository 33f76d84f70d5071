// What the ledger costs a mini-batch, rounds included: one question, one take, one finish, one new speed. Workers
// finish in the order of a simulated clock, whose own cost is measured beside it.
#include "scheduler/ledger.h"

#include <benchmark/benchmark.h>

#include <functional>
#include <queue>
#include <utility>

namespace prorata {
namespace {

double seconds(std::int64_t worker) { return 1 + 0.13 * static_cast<double>(worker % 8); }

using Event = std::pair<double, std::size_t>;  // when a worker finishes
using Clock = std::priority_queue<Event, std::vector<Event>, std::greater<>>;

Clock started(std::int64_t workers) {
  Clock clock;
  for (std::int64_t w = 0; w < workers; ++w) clock.emplace(seconds(w), static_cast<std::size_t>(w));
  return clock;
}

Event next(Clock& clock) {
  const Event event = clock.top();
  clock.pop();
  clock.emplace(event.first + seconds(static_cast<std::int64_t>(event.second)), event.second);
  return event;
}

// In an endless phase, with speeds that are measured anew each time and vary by some percent.
void ledger_minibatch(benchmark::State& state) {
  const std::int64_t workers = state.range(0);
  Ledger ledger(static_cast<std::size_t>(workers));
  for (std::int64_t w = 0; w < workers; ++w) ledger.set_seconds(static_cast<std::size_t>(w), seconds(w));
  ledger.begin(Balance::prorata, std::int64_t{1} << 62, 8 * workers);
  Clock clock = started(workers);
  for (std::size_t w = 0; w < static_cast<std::size_t>(workers); ++w) ledger.take(w, 0);
  double noise = 1;
  for (auto _ : state) {
    const auto [now, w] = next(clock);
    ledger.finish(w);
    noise = noise > 1.05 ? 0.95 : noise + 0.01;
    ledger.set_seconds(w, noise * seconds(static_cast<std::int64_t>(w)));
    if (ledger.may_take(w, now)) ledger.take(w, now);
  }
}
BENCHMARK(ledger_minibatch)->ArgName("workers")->Arg(2)->Arg(16)->Arg(64)->Arg(256)->Arg(1024);

void clock_alone(benchmark::State& state) {
  Clock clock = started(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(next(clock));
}
BENCHMARK(clock_alone)->ArgName("workers")->Arg(2)->Arg(16)->Arg(64)->Arg(256)->Arg(1024);

// The dearest question: within the last mini-batches of a phase each other worker is looked at.
void ledger_question_at_the_end(benchmark::State& state) {
  const std::int64_t workers = state.range(0);
  Ledger ledger(static_cast<std::size_t>(workers));
  for (std::int64_t w = 0; w < workers; ++w) ledger.set_seconds(static_cast<std::size_t>(w), seconds(w));
  ledger.begin(Balance::prorata, workers + workers / 8, 8 * workers);
  for (std::size_t w = 1; w < static_cast<std::size_t>(workers); ++w) ledger.take(w, 0);
  for (auto _ : state) benchmark::DoNotOptimize(ledger.may_take(0, 0.1));
}
BENCHMARK(ledger_question_at_the_end)->ArgName("workers")->Arg(2)->Arg(16)->Arg(64)->Arg(256)->Arg(1024);

}  // namespace
}  // namespace prorata
