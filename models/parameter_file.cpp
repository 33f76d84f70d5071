#include "models/parameter_file.h"

#include "models/safetensors.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace prorata {
namespace fs = std::filesystem;
namespace {

// A tensor of the file, and where its elements are.
struct Place {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t operation;
  bool bias;
  std::size_t count;
  std::span<float> block;  // of the operation: weights, then biases

  float& element(const Network& network, std::size_t i) const {
    const Operation& op = network.operation(operation);
    return block[bias ? op.weight_count() + i : op.torch_weight_index(i, network.unflattened_input(operation))];
  }
};

void add_places(const Network& network, std::size_t i, const std::string& state, std::span<float> block,
                std::vector<Place>& places) {
  const Operation& op = network.operation(i);
  places.push_back({op.name() + ".weight" + state, op.torch_weight_shape(), i, false, op.weight_count(), block});
  places.push_back(
      {op.name() + ".bias" + state, {static_cast<std::int64_t>(op.bias_count())}, i, true, op.bias_count(), block});
}

std::vector<Place> parameters_of(const Network& network) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (const ParameterBlock* block = network.parameters(i)) add_places(network, i, "", block->values.span(), places);
  return places;
}

std::vector<Place> optimizer_state_of(const Network& network) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (const ParameterBlock* block = network.parameters(i))
      for (const OptimizerState& state : block->state)
        add_places(network, i, "." + state.name, state.values.span(), places);
  return places;
}

void write(const Network& network, const std::vector<Place>& places, const fs::path& file) {
  network.fetch(STARPU_R);
  std::vector<Tensor> tensors;
  for (const Place& p : places) {
    std::vector<float> values(p.count);
    for (std::size_t i = 0; i < p.count; ++i) values[i] = p.element(network, i);
    tensors.push_back({p.name, p.shape, std::move(values)});
  }
  write_safetensors(file, {{"format", "pt"}, {"network", network.spec().name}}, tensors);
}

void read(Network& network, const std::vector<Place>& places, const fs::path& file) {
  const SafetensorsFile in(file);
  for (const std::string& name : in.names())
    if (std::none_of(places.begin(), places.end(), [&](const Place& p) { return p.name == name; }))
      in.fail("has a tensor '" + name + "' that the network '" + network.spec().name +
              "' does not have; is it of another network?");
  std::vector<std::vector<float>> values;
  for (const Place& p : places) {
    if (!in.has(p.name))
      in.fail("has no tensor '" + p.name + "', which the network '" + network.spec().name +
              "' needs; is it of another network?");
    values.push_back(in.read(p.name, p.shape));
  }
  network.fetch(STARPU_RW);
  for (std::size_t n = 0; n < places.size(); ++n)
    for (std::size_t i = 0; i < places[n].count; ++i) places[n].element(network, i) = values[n][i];
}

}  // namespace

void write_parameters(const Network& network, const fs::path& file) { write(network, parameters_of(network), file); }

void write_optimizer_state(const Network& network, const fs::path& file) {
  write(network, optimizer_state_of(network), file);
}

void read_parameters(Network& network, const fs::path& file) { read(network, parameters_of(network), file); }

void read_optimizer_state(Network& network, const fs::path& file) { read(network, optimizer_state_of(network), file); }

}  // namespace prorata
