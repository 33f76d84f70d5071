// Run by mpirun, the same tests on each rank: what one changes arrives at all others, once.
#include "driver/cluster/exchange.h"

#include "codelets/apply_gradient.h"
#include "driver/cluster/gradient_sum.h"
#include "driver/cluster/owners.h"
#include "models/layers.h"
#include "tests/driver/cluster/main.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>

namespace prorata {
namespace {

class AmongRanks : public test::WithStarpu {
 protected:
  void SetUp() override { start(1); }
  void TearDown() override { stop(); }
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

// A round, from begin to end, with something to do in between.
// Whether all are at their last.
bool make_round(
    Exchange& exchange, const std::function<void()>& meanwhile = [] {}, bool last = false) {
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<bool> done;
  exchange.begin_round(last, [&](bool all) {
    const std::lock_guard lock(mutex);
    done = all;
    ended.notify_one();
  });
  meanwhile();
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return done.has_value(); });
  return *done;
}

TEST_F(AmongRanks, EveryChangeArrivesOnceEverywhere) {
  Network network(test::small_mlp(), 1);
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (ParameterBlock* b = network.parameters(i)) std::ranges::fill(b->values.span(), 0.0f);
  float expected = 0;  // small whole numbers: sums are exact in any order
  const std::unique_ptr<Exchange> exchange = make_exchange(test::job(), network);
  Training training(network);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int round = 0; round < 10; ++round) {
      for (int n = 0; n <= rank_; ++n) training.step(static_cast<float>(1 + n + round));
      make_round(*exchange, [&] { training.step(static_cast<float>(1 + rank_)); });
      for (int r = 0; r < size_; ++r) {
        for (int n = 0; n <= r; ++n) expected += static_cast<float>(1 + n + round);
        expected += static_cast<float>(1 + r);
      }
    }
    make_round(*exchange);  // what came after the last round is not the others' yet
    network.fetch(STARPU_RW);
    for (const OwnedBlock& block : share_out(network, size_)) {
      std::vector<float> values(block.parameters->values.span().begin(), block.parameters->values.span().end());
      test::job().broadcast(values, block.owner);
      for (float v : values) ASSERT_EQ(v, expected) << "epoch " << epoch << " layer " << block.number;
      std::ranges::copy(values, block.parameters->values.span().begin());
    }
    exchange->begin_anew();
  }
}

// Each has so many rounds as it is late; nothing of what came before its last is lost.
TEST_F(AmongRanks, EndTogetherWhereverEachIs) {
  Network network(test::small_mlp(), 1);
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (ParameterBlock* b = network.parameters(i)) std::ranges::fill(b->values.span(), 0.0f);
  const std::unique_ptr<Exchange> exchange = make_exchange(test::job(), network);
  Training training(network);
  float expected = 0;
  for (int pass = 0; pass < 3; ++pass) {
    const auto rounds_of = [&](int rank) { return 1 + (3 * rank + pass) % 7; };
    for (int r = 0; r < size_; ++r) expected += static_cast<float>(rounds_of(r) * (1 + r));
    bool ended = false;
    int made = 0;
    while (!ended) {
      if (made < rounds_of(rank_)) training.step(static_cast<float>(1 + rank_));
      ended = make_round(
          *exchange, [] {}, ++made >= rounds_of(rank_));
    }
    int most = 0;
    for (int r = 0; r < size_; ++r) most = std::max(most, rounds_of(r));
    EXPECT_LE(made, most);
    network.fetch(STARPU_RW);
    for (const OwnedBlock& block : share_out(network, size_)) {
      test::job().broadcast(block.parameters->values.span(), block.owner);
      for (float v : block.parameters->values.span()) ASSERT_EQ(v, expected) << "pass " << pass;
    }
    exchange->begin_anew();
  }
}

// What rounding keeps back goes with later rounds: after some without training all have everything.
TEST_F(AmongRanks, SixteenBitsLoseNothingForGood) {
  for (const WireFormat format : {WireFormat::bfloat16, WireFormat::float16}) {
    Network network(test::small_mlp(), 1);
    for (std::size_t i = 0; i < network.depth(); ++i)
      if (ParameterBlock* b = network.parameters(i)) std::ranges::fill(b->values.span(), 0.0f);
    const std::unique_ptr<Exchange> exchange = make_exchange(test::job(), network, {1, format});
    Training training(network);
    double expected = 0;
    const std::uint64_t before = bytes_sent();
    constexpr int kRounds = 5, kMore = 4;
    for (int round = 0; round < kRounds; ++round) {
      training.step(0.001f * static_cast<float>(1 + rank_ + 7 * round));
      make_round(*exchange);
      for (int r = 0; r < size_; ++r) expected += 0.001 * (1 + r + 7 * round);
    }
    for (int round = 0; round < kMore; ++round) make_round(*exchange);
    network.fetch(STARPU_R);
    std::size_t sent = 0;
    std::set<int> asked;
    for (const OwnedBlock& block : share_out(network, size_)) {
      for (float v : block.parameters->values.span()) ASSERT_NEAR(v, expected, 1e-5 * expected);
      sent += 2 * block.parameters->values.count * static_cast<std::size_t>(block.owner == rank_ ? size_ - 1 : 1);
      if (block.owner != rank_) asked.insert(block.owner);
    }
    sent += sizeof(std::int32_t) * asked.size();  // whether it is the last round
    EXPECT_EQ(bytes_sent() - before, sent * (kRounds + kMore));
  }
}

// Ranks that train no more and the centre meet where the mean of all of them was: nothing of it is lost.
TEST_F(AmongRanks, ElasticRanksMeetInTheMiddle) {
  Network network(test::small_mlp(), 1);
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (ParameterBlock* b = network.parameters(i)) std::ranges::fill(b->values.span(), 0.0f);
  const std::unique_ptr<Exchange> exchange = make_exchange(test::job(), network, {0.25f, WireFormat::float32, true});
  Training training(network);
  training.step(static_cast<float>(1 + rank_));
  make_round(*exchange);
  network.fetch(STARPU_R);
  for (const OwnedBlock& block : share_out(network, size_)) {
    if (block.owner == rank_) continue;  // the centre has moved by then, or has not
    for (float v : block.parameters->values.span())
      ASSERT_EQ(v, 0.75f * static_cast<float>(1 + rank_)) << "a quarter nearer to 0";
  }
  for (int round = 0; round < 60; ++round) make_round(*exchange);
  exchange->settle();
  // The centre counts as one of size_ + 1 that are drawn to each other; it began at 0.
  const double expected = size_ * (size_ + 1) / 2.0 / (size_ + 1);
  network.fetch(STARPU_R);
  for (const OwnedBlock& block : share_out(network, size_))
    for (float v : block.parameters->values.span()) ASSERT_NEAR(v, expected, 1e-3);
}

// Halves and quarters of small whole numbers: exact, too.
TEST_F(AmongRanks, OwnTrainingCountsForItsWeight) {
  Network network(test::small_mlp(), 1);
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (ParameterBlock* b = network.parameters(i)) std::ranges::fill(b->values.span(), 0.0f);
  const std::unique_ptr<Exchange> exchange = make_exchange(test::job(), network, {0.5f});
  Training training(network);
  float expected = 0;
  for (int round = 0; round < 8; ++round) {
    training.step(static_cast<float>(1 + rank_ + round));
    make_round(*exchange);
    for (int r = 0; r < size_; ++r) expected += 0.5f * static_cast<float>(1 + r + round);
  }
  make_round(*exchange);
  network.fetch(STARPU_R);
  for (const OwnedBlock& block : share_out(network, size_)) {
    if (block.owner != rank_) continue;
    for (float v : block.parameters->values.span()) ASSERT_EQ(v, expected) << "layer " << block.number;
  }
}

TEST_F(AmongRanks, SumsGradientsOverAll) {
  Network network(test::small_mlp(), 1);
  const GradientSum sum = make_gradient_sum(test::job(), network);
  const std::size_t blocks = share_out(network, size_).size();
  for (int step = 0; step < 5; ++step) {
    float expected = 0;
    for (int r = 0; r < size_; ++r) expected += static_cast<float>(r + step);
    for (std::size_t b = 0; b <= blocks; ++b) {
      const std::size_t count = b == blocks ? 1 : share_out(network, size_)[b].parameters->values.count;
      std::vector<float> values(count, static_cast<float>(rank_ + step));
      {
        const DataHandle handle = DataHandle::in_main_memory(values.data(), count);
        sum(b, handle.get());
        starpu_data_acquire(handle.get(), STARPU_R);
        starpu_data_release(handle.get());
      }
      for (float v : values) ASSERT_EQ(v, expected) << "step " << step << " block " << b;
    }
  }
}

}  // namespace
}  // namespace prorata
