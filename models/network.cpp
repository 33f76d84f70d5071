#include "models/network.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

namespace prorata {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t kWeightStream = 1;  // of Random: the order of samples uses others

}  // namespace

AlignedFloats::AlignedFloats(std::size_t n) : count(n) {
  const std::size_t bytes = (n * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  data.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
  if (!data) throw std::bad_alloc();
  std::fill_n(data.get(), n, 0.0f);
}

void AlignedFloats::Free::operator()(float* p) const { std::free(p); }

OptimizerState::OptimizerState(std::string its_name, std::size_t count)
    : name(std::move(its_name)),
      values(count),
      handle(DataHandle::in_main_memory(values.data.get(), count).pinned().unordered()) {}

ParameterBlock::ParameterBlock(std::size_t count, OptimizerKind optimizer)
    : values(count), values_handle(DataHandle::in_main_memory(values.data.get(), count).pinned().unordered()) {
  for (std::string& name : state_names(optimizer)) state.emplace_back(std::move(name), count);
}

RunningStatistics::RunningStatistics(std::size_t channels, float its_momentum)
    : values(2 * channels),
      handle(DataHandle::in_main_memory(values.data.get(), values.count).pinned().unordered()),
      momentum(its_momentum) {
  std::ranges::fill(values.span().subspan(channels), 1.0f);
}

Network::Network(NetworkSpec spec, std::uint64_t seed, const Optimizer& optimizer)
    : spec_(std::move(spec)), seed_(seed), optimizer_(optimizer), operations_(make_operations(spec_)) {
  Random random(seed, kWeightStream);
  for (const auto& operation : operations_) {
    const std::size_t count = operation->parameter_count();
    blocks_.push_back(count ? std::make_unique<ParameterBlock>(count, optimizer_.kind) : nullptr);
    if (count) operation->initialize(blocks_.back()->values.span(), random);
    const std::size_t channels = operation->statistics_channels();
    statistics_.push_back(channels ? std::make_unique<RunningStatistics>(channels, operation->statistics_momentum())
                                   : nullptr);
    needs_gradient_.push_back(count > 0 || std::ranges::any_of(operation->reads(), [this](std::size_t read) {
                                return read != kNetworkInput && needs_gradient_[read];
                              }));
  }
}

std::size_t Network::parameter_count() const {
  std::size_t count = 0;
  for (const auto& operation : operations_) count += operation->parameter_count();
  return count;
}

void Network::fetch(starpu_data_access_mode mode) const {
  for (const auto& block : blocks_) {
    if (!block) continue;
    block->values_handle.fetch(mode);
    for (const OptimizerState& state : block->state) state.handle.fetch(mode);
  }
  for (const auto& statistics : statistics_)
    if (statistics) statistics->handle.fetch(mode);
}

ImageShape Network::unflattened_input(std::size_t i) const {
  std::size_t read = operations_[i]->reads().front();
  while (read != kNetworkInput && operations_[read]->elementwise()) read = operations_[read]->reads().front();
  return read == kNetworkInput ? spec_.input : operations_[read]->output();
}

}  // namespace prorata
