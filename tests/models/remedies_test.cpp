// What is done about staleness, with a delay that is forced.
//
// One worker under StarPU's `eager`, which starts tasks in the order in which they become ready: so all mini-batches in
// flight take their snapshots before the first of them updates, and have a staleness of 0, 1, 2.
#include "driver/evaluation.h"
#include "driver/trainer.h"
#include "models/random.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace prorata {
namespace {

using test::WithStarpu;

constexpr std::size_t kBlock = 0;
constexpr float kRate = 0.5f;

std::vector<double> values_of(starpu_data_handle_t handle) {
  starpu_data_acquire(handle, STARPU_R);
  const auto* data = reinterpret_cast<const float*>(starpu_vector_get_local_ptr(handle));
  std::vector<double> values(data, data + starpu_vector_get_nx(handle));
  starpu_data_release(handle);
  return values;
}

Samples six_samples() {
  Random random(5, 8);
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 6; ++i) {
    labels.push_back(static_cast<std::int32_t>(random.below(3)));
    for (int f = 0; f < 16; ++f) images.push_back(static_cast<std::uint8_t>(random.below(256)));
  }
  return {std::move(images), std::move(labels)};
}

struct Trained {
  std::vector<double> before, after;
  std::vector<std::vector<double>> gradients;    // by staleness
  std::vector<std::vector<double>> of_replicas;  // the same by replica
};

// One pass over the six samples.
Trained train_three_at_once(Network& network, Trainer& trainer, float momentum = 0) {
  const Samples samples = six_samples();
  const SampleHandles handles(samples);
  std::vector<std::uint32_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0u);
  Trained t;
  t.before = values_of(network.parameters(kBlock)->values_handle.get());
  t.gradients.resize(3);
  // Nothing begins until all are there, so that each replica has one.
  starpu_data_acquire(handles.source().labels, STARPU_W);
  std::vector<std::size_t> staleness(3, 99);
  const Pass pass{.kind = GroupKind::train,
                  .data = handles.source(),
                  .order = order,
                  .step =
                      [&](std::size_t n) {
                        if (n == 4) starpu_data_release(handles.source().labels);
                        return UpdateStep{kRate, momentum, 0};
                      },
                  .balance = PRORATA_PRORATA,
                  .round = 0,
                  .record =
                      [&](const MinibatchResult& m) {
                        for (std::size_t r = 0; r < 3; ++r)
                          if (&trainer.replica(r).result() == &m) staleness[r] = m.staleness;
                        return true;
                      }};
  trainer.run(
      pass, [] { return false; }, [] {});
  for (std::size_t r = 0; r < 3; ++r) t.of_replicas.push_back(values_of(trainer.replica(r).gradient(kBlock)));
  for (std::size_t r = 0; r < 3; ++r)
    if (staleness[r] < 3) t.gradients[staleness[r]] = values_of(trainer.replica(r).gradient(kBlock));
  t.after = values_of(network.parameters(kBlock)->values_handle.get());
  return t;
}

class Remedied : public WithStarpu, public ::testing::WithParamInterface<Remedies> {};

TEST_P(Remedied, StepsAreThoseOfTheFormula) {
  const Remedies remedies = GetParam();
  start(1, "eager");
  Network network(test::small_mlp(), 3);
  Trainer trainer(network, {.batch = 2, .replicas = 3, .remedies = remedies});
  const Trained t = train_three_at_once(network, trainer);
  double largest_difference = 0;
  for (std::size_t i = 0; i < t.before.size(); ++i) {
    double w = t.before[i], plain = t.before[i];
    for (std::size_t s = 0; s < 3; ++s) {
      ASSERT_EQ(t.gradients[s].size(), t.before.size()) << "no mini-batch had staleness " << s;
      const double g = t.gradients[s][i];
      const double weight = remedies.scale_by_staleness && s > 1 ? 1.0 / static_cast<double>(s) : 1;
      plain -= kRate * g;
      w -= kRate * weight * (g + remedies.compensation * g * g * (w - t.before[i]));
    }
    EXPECT_NEAR(t.after[i], w, 1e-6) << i;  // some roundings of floats below 2
    largest_difference = std::max(largest_difference, std::abs(w - plain));
  }
  const bool any = remedies.scale_by_staleness || remedies.compensation > 0;
  if (any) {
    EXPECT_GT(largest_difference, 1e-3) << "what the test is about is too small to be seen";
  }
}

using Dana = WithStarpu;

// Two passes: the second one's momenta are thirds of what the first one's added up to.
TEST_F(Dana, EachReplicaHasAMomentumOfItsOwn) {
  start(1, "eager");
  constexpr float kMomentum = 0.5f;
  Network network(test::small_mlp(), 3);
  Trainer trainer(network, {.batch = 2, .replicas = 3, .remedies = {.dana = true}});
  std::vector<double> kept(network.parameters(kBlock)->values.count, 0.0);  // by the network
  for (int pass = 0; pass < 2; ++pass) {
    const Trained t = train_three_at_once(network, trainer, kMomentum);
    const std::vector<double> given = values_of(network.parameters(kBlock)->state.front().handle.get());
    for (std::size_t i = 0; i < t.before.size(); ++i) {
      double w = t.before[i], sum = 0;
      for (const std::vector<double>& gradient : t.of_replicas) {
        const double v = kMomentum * kept[i] / 3 + gradient[i];
        w -= kRate * (gradient[i] + kMomentum * v);
        sum += v;
      }
      ASSERT_NEAR(t.after[i], w, 1e-6) << "parameter " << i << ", pass " << pass;
      ASSERT_NEAR(given[i], sum, 1e-6) << "momentum " << i << ", pass " << pass;
      kept[i] = sum;
    }
  }
  EXPECT_GT(*std::ranges::max_element(kept), 1e-3) << "what the test is about is too small to be seen";
}

INSTANTIATE_TEST_SUITE_P(Of, Remedied,
                         ::testing::Values(Remedies{}, Remedies{true, 0}, Remedies{false, 4}, Remedies{true, 4}),
                         [](const auto& tested) {
                           return std::string(tested.param.scale_by_staleness ? "scaled" : "unscaled") +
                                  (tested.param.compensation > 0 ? "_compensated" : "_uncompensated");
                         });

}  // namespace
}  // namespace prorata
