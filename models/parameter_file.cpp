#include "models/parameter_file.h"

#include "models/safetensors.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace prorata {
namespace fs = std::filesystem;
namespace {

// A tensor of the file, and where its elements are: floats, or else one integer.
struct Place {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t count;
  std::function<float&(std::size_t n)> element;
  std::uint64_t* integer = nullptr;  // as `element` not const, for read(), whose network is not
};

Place place_of(std::string name, std::span<float> values) {
  return {std::move(name),
          {static_cast<std::int64_t>(values.size())},
          values.size(),
          [values](std::size_t n) -> float& { return values[n]; }};
}

// `state`: of the optimizer's, its name behind the parameter's; `block`: of the operation, weights, then biases.
void add_places(const Network& network, std::size_t i, const std::string& state, std::span<float> block,
                std::vector<Place>& places) {
  const Operation& op = network.operation(i);
  const ImageShape image = network.unflattened_input(i);
  places.push_back({op.name() + ".weight" + state, op.torch_weight_shape(), op.weight_count(),
                    [block, image, &op](std::size_t n) -> float& { return block[op.torch_weight_index(n, image)]; }});
  if (op.bias_count() > 0) places.push_back(place_of(op.name() + ".bias" + state, block.subspan(op.weight_count())));
}

std::vector<Place> parameters_of(const Network& network) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < network.depth(); ++i) {
    if (const ParameterBlock* block = network.parameters(i)) add_places(network, i, "", block->values.span(), places);
    if (const RunningStatistics* statistics = network.statistics(i)) {
      const std::string& name = network.operation(i).name();
      const std::size_t channels = network.operation(i).statistics_channels();
      places.push_back(place_of(name + ".running_mean", statistics->values.span().first(channels)));
      places.push_back(place_of(name + ".running_var", statistics->values.span().subspan(channels)));
      places.push_back({name + ".num_batches_tracked", {}, 1, {}, const_cast<std::uint64_t*>(&statistics->updates)});
    }
  }
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
    Tensor tensor{p.name, p.shape, {}, {}};
    if (p.integer)
      tensor.integer = static_cast<std::int64_t>(*p.integer);
    else
      for (std::size_t n = 0; n < p.count; ++n) tensor.values.push_back(p.element(n));
    tensors.push_back(std::move(tensor));
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
  std::vector<std::int64_t> integers;
  for (const Place& p : places) {
    if (!in.has(p.name))
      in.fail("has no tensor '" + p.name + "', which the network '" + network.spec().name +
              "' needs; is it of another network?");
    integers.push_back(p.integer ? in.read_integer(p.name) : 0);
    values.push_back(p.integer ? std::vector<float>() : in.read(p.name, p.shape));
  }
  network.fetch(STARPU_RW);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].integer) *places[i].integer = static_cast<std::uint64_t>(integers[i]);
    for (std::size_t n = 0; n < values[i].size(); ++n) places[i].element(n) = values[i][n];
  }
}

}  // namespace

void write_parameters(const Network& network, const fs::path& file) { write(network, parameters_of(network), file); }

void write_optimizer_state(const Network& network, const fs::path& file) {
  write(network, optimizer_state_of(network), file);
}

void read_parameters(Network& network, const fs::path& file) { read(network, parameters_of(network), file); }

void read_optimizer_state(Network& network, const fs::path& file) { read(network, optimizer_state_of(network), file); }

}  // namespace prorata
