// Shares of a round, by count and by size, for many workers. Aim: less than 1 ms for 1024.
#include "scheduler/partition.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

namespace prorata {
namespace {

constexpr int kBatch = 64;
constexpr int kRoundPerWorker = 8;  // as the policy has it where a program names no round

// Speeds over `decades` orders of magnitude, of which some are equal.
std::vector<double> seconds(std::int64_t workers, double decades) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<double> exponent(-decades / 2, decades / 2);
  std::vector<double> s;
  for (std::int64_t w = 0; w < workers; ++w) s.push_back(w % 5 == 1 ? s.back() : std::pow(10, exponent(engine)));
  return s;
}

// A fixed cost, a bend, and beyond it steeper: as many points as a calibration makes.
TimeFunction calibrated(double one) {
  std::vector<TimePoint> points;
  for (double b = 1; b <= 512; b *= 2) {
    points.push_back({b, one * (10 + b + std::max(0.0, b - 100))});
    points.push_back({b * 1.5, one * (10 + b * 1.5 + std::max(0.0, b * 1.5 - 100))});
  }
  return TimeFunction(points);
}

void partition_count(benchmark::State& state) {
  const auto s = seconds(state.range(0), static_cast<double>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(prorata::partition_count(s, state.range(0) * kRoundPerWorker));
}

void partition_size(benchmark::State& state) {
  std::vector<SizeWorker> workers;
  for (double one : seconds(state.range(0), static_cast<double>(state.range(1)))) workers.push_back({calibrated(one)});
  for (auto _ : state) benchmark::DoNotOptimize(prorata::partition_size(workers, state.range(0) * kBatch));
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"workers", "decades"})->ArgsProduct({{16, 64, 256, 1024}, {0, 1, 6}})->Unit(benchmark::kMicrosecond);
}
BENCHMARK(partition_count)->Apply(sizes);
BENCHMARK(partition_size)->Apply(sizes);

// All alike, and flat where they end: everything to be dealt coincides.
void partition_size_flat(benchmark::State& state) {
  const std::vector<SizeWorker> workers(static_cast<std::size_t>(state.range(0)),
                                        {TimeFunction({{32, 1}, {96, 1}, {128, 2}})});
  for (auto _ : state) benchmark::DoNotOptimize(prorata::partition_size(workers, state.range(0) * kBatch));
}
BENCHMARK(partition_size_flat)->ArgName("workers")->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace prorata
