// A network as its TOML file describes it. docs/networks.md describes the file for users.
#pragma once

#include "models/optimizer.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace prorata {

// Of one sample, channels innermost. A flat one is [1, 1, features].
struct ImageShape {
  std::int32_t height = 1;
  std::int32_t width = 1;
  std::int32_t channels = 1;

  std::int64_t size() const { return std::int64_t{height} * width * channels; }
  bool operator==(const ImageShape&) const = default;
};

struct DenseSpec {
  std::int32_t units;
};
struct Conv2dSpec {
  std::int32_t channels;
  std::int32_t kernel;
  std::int32_t stride;
  std::int32_t padding;
  std::int32_t groups = 1;
  bool bias = true;
};
// As PyTorch's BatchNorm2d.
struct BatchNormSpec {
  float momentum = 0.1f;  // of the running statistics
  float epsilon = 1e-5f;
};
struct MaxPoolSpec {
  std::int32_t window;
  std::int32_t stride;
};
struct AvgPoolSpec {
  std::int32_t window;
  std::int32_t stride;
};
struct GlobalAvgPoolSpec {};
struct DropoutSpec {
  float probability;
};
struct AddSpec {};
struct ReluSpec {};
struct FlattenSpec {};

// In the place of a layer or a value: the network's input, which nothing makes.
inline constexpr std::size_t kNetworkInput = SIZE_MAX;

struct LayerSpec {
  std::string name;  // from the file, else its number in the list, as in PyTorch's Sequential
  std::variant<DenseSpec, Conv2dSpec, BatchNormSpec, MaxPoolSpec, AvgPoolSpec, GlobalAvgPoolSpec, DropoutSpec, AddSpec,
               ReluSpec, FlattenSpec>
      type;
  ImageShape input;  // of each of its inputs
  ImageShape output;
  // Earlier layers, by their place in the list, whose outputs it takes, or kNetworkInput. Empty: the layer before it,
  // or, for the first one, the network's input.
  std::vector<std::size_t> inputs = {};
};

// How the learning rate changes over a run.
enum class LrSchedule { cosine, constant, step };

inline constexpr std::pair<const char*, LrSchedule> kLrSchedules[] = {
    {"cosine", LrSchedule::cosine}, {"constant", LrSchedule::constant}, {"step", LrSchedule::step}};

struct TrainingDefaults {
  std::int32_t epochs = 3;
  std::int32_t batch = 64;
  OptimizerKind optimizer = OptimizerKind::sgd;
  double learning_rate = 0.02;
  double momentum = 0.9;
  double weight_decay = 0;
  LrSchedule lr_schedule = LrSchedule::cosine;
  std::int32_t lr_step_epochs = 0;  // of LrSchedule::step; 0: not said
  double lr_gamma = 0.1;
};

// With this optimizer, where nobody says more: PyTorch's, but for the learning rate of sgd, which has none there.
TrainingDefaults training_defaults(OptimizerKind optimizer);

inline constexpr std::int32_t kMostClasses = 1 << 20;

// What a network is for: the shape of a sample, and how many classes there are.
struct SampleSpec {
  ImageShape input;
  std::int32_t classes;
};
inline constexpr SampleSpec kUsualSamples{{28, 28, 1}, 10};  // Fashion-MNIST

struct NetworkSpec {
  std::string name;
  ImageShape input;
  std::int32_t classes;
  bool any_input = false, any_classes = false;  // left to the data set, which is not known
  TrainingDefaults defaults;
  // At least one, in the order of forward. Every one is an input of a later one but the last, whose output has
  // `classes` features.
  std::vector<LayerSpec> layers;
};

// Whether its output has an element for each of its input, in the same place.
bool is_elementwise(const LayerSpec& layer);

// Reads a network file. What it leaves to the data set is that of `samples`, or, without them, of the usual ones.
// InputError names file, line and expectation.
NetworkSpec read_network_spec(const std::filesystem::path& file, const std::optional<SampleSpec>& samples = {});

// `model` is a zoo name or the path of a TOML file (it has a slash or ends in .toml). InputError lists the zoo.
std::filesystem::path find_network(const std::string& model);
std::vector<std::string> zoo();

}  // namespace prorata
