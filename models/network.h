// A network: its operations, and the parameters that all workers share.
//
// The parameters of each operation are one block of floats in main memory (weights, then biases) with what the
// optimizer keeps of them beside it, each with a StarPU handle whose sequential consistency is off: accesses exclude
// each other only while they are ready or running, which is all that asynchronous training needs (docs/design.md). All
// of it is pinned for CUDA devices.
//
// `version` counts the updates of a block. It is read and raised only by tasks that hold the block's handle, so the
// handle's exclusion is its lock.
#pragma once

#include "models/data_handle.h"
#include "models/graph.h"
#include "models/optimizer.h"
#include "models/specification.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace prorata {

// Memory that kernels like: aligned for vectors.
struct AlignedFloats {
  explicit AlignedFloats(std::size_t n);
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float[], Free> data;
  std::size_t count;

  std::span<float> span() const { return {data.get(), count}; }
};

// One of state_names(): a number for each parameter of the block.
struct OptimizerState {
  OptimizerState(std::string name, std::size_t count);

  std::string name;
  AlignedFloats values;
  DataHandle handle;
};

struct ParameterBlock {
  ParameterBlock(std::size_t count, OptimizerKind optimizer);

  AlignedFloats values;
  DataHandle values_handle;
  std::vector<OptimizerState> state;
  std::uint64_t version = 0;
};

// Of a batch normalisation: models/running_statistics.h.
struct RunningStatistics {
  RunningStatistics(std::size_t channels, float momentum);

  AlignedFloats values;  // mean, then variance, of each channel
  DataHandle handle;
  const float momentum;
  std::uint64_t updates = 0;
};

class Network {
 public:
  // StarPU must be running while the network lives. The weights, and what dropout draws, are those of `seed`, whatever
  // the workers.
  Network(NetworkSpec spec, std::uint64_t seed, const Optimizer& optimizer);
  // With the optimizer that its file names.
  Network(NetworkSpec spec, std::uint64_t seed) : Network(spec, seed, Optimizer{.kind = spec.defaults.optimizer}) {}

  const NetworkSpec& spec() const { return spec_; }
  std::uint64_t seed() const { return seed_; }
  const Optimizer& optimizer() const { return optimizer_; }
  std::size_t depth() const { return operations_.size(); }
  const Operation& operation(std::size_t i) const { return *operations_[i]; }
  // Null where the operation has no parameters.
  ParameterBlock* parameters(std::size_t i) { return blocks_[i].get(); }
  const ParameterBlock* parameters(std::size_t i) const { return blocks_[i].get(); }
  std::size_t parameter_count() const;
  // Null where the operation has none.
  RunningStatistics* statistics(std::size_t i) { return statistics_[i].get(); }
  const RunningStatistics* statistics(std::size_t i) const { return statistics_[i].get(); }
  // Whether value i depends on parameters.
  bool needs_gradient(std::size_t i) const { return needs_gradient_[i]; }
  // Brings parameters, the optimizer's state and running statistics to main memory: they may be read then, and changed
  // where `mode` is
  // STARPU_RW. Not while tasks are in flight. Throws std::runtime_error if a device does not give them.
  void fetch(starpu_data_access_mode mode) const;

  // The image that the input of operation i was before a flatten, else its input: how its weights map to PyTorch's.
  ImageShape unflattened_input(std::size_t i) const;

 private:
  NetworkSpec spec_;
  std::uint64_t seed_;
  Optimizer optimizer_;
  std::vector<std::unique_ptr<const Operation>> operations_;
  std::vector<std::unique_ptr<ParameterBlock>> blocks_;
  std::vector<std::unique_ptr<RunningStatistics>> statistics_;
  std::vector<bool> needs_gradient_;
};

}  // namespace prorata
