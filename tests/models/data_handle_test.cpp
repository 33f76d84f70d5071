// What a data handle does with the main memory that it is of.
#include "models/data_handle.h"

#include "models/network.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#if defined(PRORATA_CUDA)
#include <cuda_runtime.h>
#endif

#include <array>

namespace prorata::test {
namespace {

class DataHandles : public WithStarpu {};

TEST_F(DataHandles, AreMovedAndUnregisteredOncePinnedOrNot) {
  start(1);
  std::array<float, 1000> values{};
  {
    DataHandle a = DataHandle::in_main_memory(values.data(), values.size()).pinned().unordered();
    DataHandle b = DataHandle::in_main_memory(&values[0], 1);
    EXPECT_EQ(DataHandle::alive(), 2);
    const starpu_data_handle_t first = a.get();
    b = std::move(a);
    EXPECT_EQ(b.get(), first);
    const DataHandle c = std::move(b);
    EXPECT_EQ(c.get(), first);
  }
  EXPECT_EQ(DataHandle::alive(), 0);
}

#if defined(PRORATA_CUDA)

cudaMemoryType kind_of(const void* memory) {
  cudaPointerAttributes attributes{};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
  return attributes.type;
}

TEST_F(DataHandles, PinWhatANetworkSharesForCudaDevices) {
  ::setenv("STARPU_NCUDA", "1", 1);
  start(1);
  if (starpu_cuda_worker_get_count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  std::vector<float> values(1 << 20);
  {
    const DataHandle pinned = DataHandle::in_main_memory(values.data(), values.size()).pinned();
    EXPECT_EQ(kind_of(values.data()), cudaMemoryTypeHost);
    Network network(every_layer(), 1, {.kind = OptimizerKind::adam});
    for (std::size_t i = 0; i < network.depth(); ++i) {
      const ParameterBlock* block = network.parameters(i);
      if (!block) continue;
      EXPECT_EQ(kind_of(block->values.data.get()), cudaMemoryTypeHost) << i;
      for (const OptimizerState& state : block->state)
        EXPECT_EQ(kind_of(state.values.data.get()), cudaMemoryTypeHost) << i << ", " << state.name;
    }
  }
  EXPECT_EQ(kind_of(values.data()), cudaMemoryTypeUnregistered);
}

#endif

}  // namespace
}  // namespace prorata::test
