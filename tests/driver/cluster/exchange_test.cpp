// Run by mpirun, the same tests on each rank: what one changes arrives at all others, once.
#include "driver/cluster/exchange.h"

#include "codelets/apply_gradient.h"
#include "models/layers.h"
#include "tests/driver/cluster/main.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <gtest/gtest.h>
#include <starpu_mpi.h>

#include <condition_variable>
#include <mutex>

namespace prorata {
namespace {

class AmongRanks : public test::WithStarpu {
 protected:
  void SetUp() override {
    start(1);
    ASSERT_EQ(starpu_mpi_init_comm(nullptr, nullptr, 0, test::job().comm()), 0);
  }
  void TearDown() override {
    starpu_mpi_shutdown();
    stop();
  }
  const int rank_ = test::job().rank(), size_ = test::job().ranks();
};

// All parameters += by, by tasks, `times` times.
class Training {
 public:
  explicit Training(Network& network) : network_(network) {
    for (std::size_t i = 0; i < network.depth(); ++i) {
      ParameterBlock* block = network.parameters(i);
      if (!block) continue;
      auto& ones = ones_.emplace_back(block->values.count);
      std::ranges::fill(ones.span(), 1.0f);
      handles_.push_back(DataHandle::in_main_memory(ones.data.get(), ones.count));
      args_.push_back({{static_cast<std::int32_t>(ones.count)}, 1, 0});
      blocks_.push_back(block);
    }
  }
  void step(float by) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      args_[b].weight = by;
      submit_task(make_task({&accumulate_gradient, {blocks_[b]->values_handle.get(), handles_[b].get()}, &args_[b]}));
    }
    starpu_task_wait_for_all();
  }

 private:
  Network& network_;
  std::vector<AlignedFloats> ones_;
  std::vector<DataHandle> handles_;
  std::vector<AccumulateGradientArgs> args_;
  std::vector<ParameterBlock*> blocks_;
};

TEST_F(AmongRanks, EveryChangeArrivesOnceEverywhere) {
  Network network(test::small_mlp(), 1);
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (ParameterBlock* b = network.parameters(i)) std::ranges::fill(b->values.span(), 0.0f);
  float expected = 0;
  {
    Exchange exchange(network, test::job().comm());
    Training training(network);
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (int round = 0; round < 10; ++round) {
        for (int n = 0; n <= rank_; ++n) training.step(static_cast<float>(1 + n + round));
        std::mutex mutex;
        std::condition_variable ended;
        bool done = false;
        exchange.begin_round([&] {
          const std::lock_guard lock(mutex);
          done = true;
          ended.notify_one();
        });
        training.step(static_cast<float>(1 + rank_));
        std::unique_lock lock(mutex);
        ended.wait(lock, [&] { return done; });
        for (int r = 0; r < size_; ++r) {
          for (int n = 0; n <= r; ++n) expected += static_cast<float>(1 + n + round);
          expected += static_cast<float>(1 + r);
        }
      }
      // What came after the last round is not the others' yet.
      bool done = false;
      std::mutex mutex;
      std::condition_variable ended;
      exchange.begin_round([&] {
        const std::lock_guard lock(mutex);
        done = true;
        ended.notify_one();
      });
      std::unique_lock lock(mutex);
      ended.wait(lock, [&] { return done; });
      lock.unlock();
      exchange.synchronize();
      for (std::size_t i = 0; i < network.depth(); ++i)
        if (ParameterBlock* b = network.parameters(i)) {
          for (float v : b->values.span()) ASSERT_EQ(v, expected) << "epoch " << epoch << " layer " << i;
        }
    }
  }
}

TEST(ShareOut, TheLargestFirst) {
  EXPECT_EQ(share_out({10, 100, 60, 50}, 2), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(share_out({5}, 3), (std::vector<int>{0}));
}

}  // namespace
}  // namespace prorata
