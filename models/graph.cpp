#include "models/graph.h"

#include <optional>
#include <variant>

namespace prorata {
namespace {

// By layer.
struct Resolved {
  std::vector<std::vector<std::size_t>> inputs;  // layers that make values; kNetworkInput for the network's
  std::vector<std::size_t> readers;              // how many inputs its value is
};

// A flatten makes no value: whoever reads it reads what it reads.
Resolved resolve(const std::vector<LayerSpec>& layers) {
  Resolved r{std::vector<std::vector<std::size_t>>(layers.size()), std::vector<std::size_t>(layers.size())};
  const auto through_flatten = [&](std::size_t i) {
    while (i != kNetworkInput && std::holds_alternative<FlattenSpec>(layers[i].type)) i = r.inputs[i].front();
    return i;
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].inputs.empty()) r.inputs[i] = {through_flatten(i == 0 ? kNetworkInput : i - 1)};
    for (const std::size_t input : layers[i].inputs) r.inputs[i].push_back(through_flatten(input));
    if (std::holds_alternative<FlattenSpec>(layers[i].type)) continue;
    for (std::size_t input : r.inputs[i])
      if (input != kNetworkInput) ++r.readers[input];
  }
  return r;
}

}  // namespace

std::vector<std::unique_ptr<const Operation>> make_operations(const NetworkSpec& spec) {
  const std::vector<LayerSpec>& layers = spec.layers;
  const Resolved resolved = resolve(layers);
  // The layer that a relu is fused into.
  const auto fused_into = [&](std::size_t i) -> std::optional<std::size_t> {
    if (!std::holds_alternative<ReluSpec>(layers[i].type)) return std::nullopt;
    const std::size_t maker = resolved.inputs[i].front();
    if (maker == kNetworkInput || !takes_relu(layers[maker]) || resolved.readers[maker] != 1) return std::nullopt;
    return maker;
  };
  std::vector<bool> with_relu(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (const auto maker = fused_into(i)) with_relu[*maker] = true;

  std::vector<std::unique_ptr<const Operation>> operations;
  std::vector<std::size_t> value_of(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (std::holds_alternative<FlattenSpec>(layers[i].type)) continue;
    if (const auto maker = fused_into(i)) {
      value_of[i] = value_of[*maker];
      continue;
    }
    std::vector<std::size_t> reads;
    for (std::size_t input : resolved.inputs[i])
      reads.push_back(input == kNetworkInput ? kNetworkInput : value_of[input]);
    value_of[i] = operations.size();
    operations.push_back(make_operation(layers[i], std::move(reads), value_of[i], with_relu[i]));
  }
  return operations;
}

}  // namespace prorata
