// How fast two cores of this machine hand data to each other: what bounds workers that share parameters.
//
//   core_to_core [CORE CORE]      default: 0 1
//
// The first line is the time of a bare signal from one to the other, the others the rate at which each adds to a buffer
// that the other one wrote last, as apply_gradient does with the parameters. On virtual machines both may change from
// minute to minute, when the host moves a virtual core to where it has another cache: bench/README.md.
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void stay_on(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  if (const int error = pthread_setaffinity_np(pthread_self(), sizeof(set), &set); error != 0) {
    std::fprintf(stderr, "core_to_core: there is no core %d for this program\n", core);
    std::exit(2);
  }
}

// Both threads run `work` in turns, `turns` times each. The seconds that all of it took within `work`.
template <class Work>
double in_turns(std::array<int, 2> cores, int turns, const Work& work) {
  std::atomic<int> whose{0};
  std::array<double, 2> seconds{};
  const auto run = [&](int me) {
    stay_on(cores[static_cast<std::size_t>(me)]);
    for (int t = 0; t < turns; ++t) {
      while (whose.load(std::memory_order_acquire) != me) {
      }
      const auto start = Clock::now();
      work();
      seconds[static_cast<std::size_t>(me)] += seconds_since(start);
      whose.store(1 - me, std::memory_order_release);
    }
  };
  std::thread first(run, 0), second(run, 1);
  first.join();
  second.join();
  return seconds[0] + seconds[1];
}

}  // namespace

int main(int argc, char** argv) {
  std::array<int, 2> cores{0, 1};
  if (argc == 3) cores = {std::atoi(argv[1]), std::atoi(argv[2])};
  if (argc != 1 && argc != 3) {
    std::fprintf(stderr, "usage: core_to_core [CORE CORE]\n");
    return 2;
  }
  constexpr int kSignals = 200'000;
  const auto start = Clock::now();
  in_turns(cores, kSignals, [] {});
  std::printf("signal one way  %6.0f ns\n", seconds_since(start) / (2 * kSignals) * 1e9);

  for (const double mib : {0.25, 1.5, 4.0}) {
    constexpr int kTurns = 300;
    std::vector<float> buffer(static_cast<std::size_t>(mib * (1 << 20) / sizeof(float)));
    const double seconds = in_turns(cores, kTurns, [&] {
      for (float& value : buffer) value += 1;
    });
    std::printf("%4.2f MiB handed over  %6.1f GB/s\n", mib, mib * (1 << 20) * 2 * kTurns / seconds / 1e9);
  }
  return 0;
}
