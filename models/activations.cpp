#include "models/activations.h"

#include "codelets/apply_gradient.h"

#include <algorithm>

namespace prorata {
namespace {

std::size_t outputs(const Network& network, std::size_t i) {
  return static_cast<std::size_t>(network.operation(i).output().size());
}

// How many inputs of operations this value is.
std::size_t readers_of(const Network& network, std::size_t value) {
  std::size_t readers = 0;
  for (std::size_t i = value + 1; i < network.depth(); ++i)
    readers += static_cast<std::size_t>(std::ranges::count(network.operation(i).reads(), value));
  return readers;
}

// Beside `dy`.
std::size_t more_gradients(const Network& network, std::size_t value) {
  return network.needs_gradient(value) ? std::max<std::size_t>(1, readers_of(network, value)) - 1 : 0;
}

// Of several values read, one needs its gradient and another does not.
bool has_unwanted(const Network& network, std::size_t i) {
  const std::vector<std::size_t>& reads = network.operation(i).reads();
  const auto needed = [&](std::size_t read) { return read != kNetworkInput && network.needs_gradient(read); };
  return std::ranges::any_of(reads, needed) && !std::ranges::all_of(reads, needed);
}

}  // namespace

Activations::Activations(const Network& network, std::int32_t batch, bool copies)
    : network_(network),
      x_(DataHandle::temporary(static_cast<std::size_t>(network.spec().input.size()) * batch, sizeof(float))) {
  for (std::size_t i = 0; i < network.depth(); ++i) {
    const Operation& op = network.operation(i);
    const auto floats = [](std::size_t count) { return DataHandle::temporary(count, sizeof(float)); };
    const std::size_t count = outputs(network, i) * batch;
    Layer layer;
    layer.y = floats(count);
    layer.dy = floats(count);
    if (has_unwanted(network, i)) layer.unwanted = floats(static_cast<std::size_t>(op.input().size()) * batch);
    if (const std::size_t parameters = op.parameter_count()) {
      if (copies) layer.snapshot = floats(parameters);
      layer.dparams = floats(parameters);
    }
    if (const std::size_t extra = op.extra_bytes(static_cast<std::size_t>(batch)))
      layer.extra = DataHandle::temporary(extra, 1);
    for (std::size_t more = more_gradients(network, i); more > 0; --more) layer.more.push_back(floats(count));
    layers_.push_back(std::move(layer));
  }
}

Activations::Bytes Activations::bytes(const Network& network) {
  Bytes bytes{.fixed = 0, .per_sample = static_cast<std::size_t>(network.spec().input.size()) * sizeof(float)};
  for (std::size_t i = 0; i < network.depth(); ++i) {
    const Operation& op = network.operation(i);
    bytes.fixed += 2 * op.parameter_count() * sizeof(float) + op.extra_bytes(0);
    bytes.per_sample +=
        (2 + more_gradients(network, i)) * outputs(network, i) * sizeof(float) + op.extra_bytes(1) - op.extra_bytes(0);
    if (has_unwanted(network, i)) bytes.per_sample += static_cast<std::size_t>(op.input().size()) * sizeof(float);
  }
  return bytes;
}

// Where a reader writes the gradient of what it reads; null where nobody needs it.
starpu_data_handle_t Activations::gradient_for(std::size_t reader, std::size_t input) const {
  const std::size_t read = network_.operation(reader).reads()[input];
  if (read == kNetworkInput || !network_.needs_gradient(read)) return nullptr;
  std::size_t before = 0;
  for (std::size_t i = read + 1; i <= reader; ++i) {
    const std::vector<std::size_t>& reads = network_.operation(i).reads();
    before += static_cast<std::size_t>(
        std::count(reads.begin(), i < reader ? reads.end() : reads.begin() + static_cast<std::ptrdiff_t>(input), read));
  }
  const Layer& layer = layers_[read];
  return before < layer.more.size() ? layer.more[before].get() : layer.dy.get();
}

LayerBuffers Activations::buffers(std::size_t i, bool shared) const {
  const Layer& own = layers_[i];
  const Operation& op = network_.operation(i);
  const ParameterBlock* block = network_.parameters(i);
  LayerBuffers b{.x = {},
                 .y = own.y.get(),
                 .params = block && shared ? block->values_handle.get() : own.snapshot.get(),
                 .dparams = own.dparams.get(),
                 .dx = {},
                 .unwanted = own.unwanted.get(),
                 .dy = own.dy.get(),
                 .extra = own.extra.get(),
                 .running = network_.statistics(i) ? network_.statistics(i)->handle.get() : nullptr};
  for (std::size_t input = 0; input < op.reads().size(); ++input) {
    const std::size_t read = op.reads()[input];
    b.x.push_back(read == kNetworkInput ? x_.get() : layers_[read].y.get());
    b.dx.push_back(gradient_for(i, input));
  }
  return b;
}

void Activations::plan_sum(Plan& plan, std::size_t i) const {
  const Layer& layer = layers_[i];
  const auto of_sample = static_cast<std::int32_t>(outputs(network_, i));
  for (auto more = layer.more.rbegin(); more != layer.more.rend(); ++more)
    plan.add_for_each_sample(accumulate_gradient, {layer.dy.get(), more->get()},
                             AccumulateGradientArgs{{of_sample}, 1, false});
}

}  // namespace prorata
