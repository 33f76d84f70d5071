#include "models/specification.h"

#include "models/errors.h"
#include "models/table_reader.h"
#include "models/zoo_path.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace prorata {
namespace fs = std::filesystem;
namespace {

using Table = toml::value;

constexpr std::int64_t kMostUnits = kMostClasses;
constexpr std::int64_t kMostFeatures = 1 << 24;  // of one sample

ImageShape read_input(const TableReader& network) {
  const Table& v = network.at("input", "");
  const std::string expected = "'input' must be the shape [height, width, channels], three integers from 1 to 65536";
  if (!v.is_array() || v.as_array().size() != 3) network.fail(v, expected);
  std::int64_t n[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const Table& e = v.as_array()[i];
    if (!e.is_integer() || e.as_integer() < 1 || e.as_integer() > 65536) network.fail(e, expected);
    n[i] = e.as_integer();
  }
  if (n[0] * n[1] * n[2] > kMostFeatures)
    network.fail(v, "'input' has more than " + std::to_string(kMostFeatures) + " values a sample; make it smaller");
  return {std::int32_t(n[0]), std::int32_t(n[1]), std::int32_t(n[2])};
}

std::int32_t windows(std::int32_t size, std::int32_t padding, std::int32_t window, std::int32_t stride) {
  return size + 2 * padding < window ? 0 : (size + 2 * padding - window) / stride + 1;
}

std::string to_string(const ImageShape& s) {
  return "[" + std::to_string(s.height) + ", " + std::to_string(s.width) + ", " + std::to_string(s.channels) + "]";
}

constexpr const char* kInputName = "input";  // what a layer calls the network's input, unless a layer has that name

// The layers that have been read, and where the layers of the file are by name.
struct LayersSoFar {
  const std::vector<LayerSpec>& layers;
  const std::map<std::string, std::size_t>& numbers;
  SampleSpec samples;

  // `key` of the layer to be read says: the output of `name`.
  std::size_t find(const TableReader& r, const std::string& key, const std::string& name) const {
    const auto found = numbers.find(name);
    const std::string whole = "layer " + std::to_string(layers.size() + 1) + ": '" + key + "' names '" + name + "', ";
    if (found == numbers.end() && name == kInputName) return kNetworkInput;
    if (found == numbers.end())
      r.fail(r.at(key, ""), whole + "but no layer is called so; name an earlier layer, or \"" + kInputName +
                                "\", the network's input");
    if (found->second >= layers.size())
      r.fail(r.at(key, ""),
             whole + "which is not before it; a layer takes the outputs of earlier ones, so order them that way");
    return found->second;
  }

  std::size_t last() const { return layers.empty() ? kNetworkInput : layers.size() - 1; }
  std::string name(std::size_t i) const { return i == kNetworkInput ? kInputName : layers[i].name; }
  bool before_the_last() const { return layers.size() + 1 == numbers.size(); }
  ImageShape output(std::size_t i) const { return i == kNetworkInput ? samples.input : layers[i].output; }
  // What was flattened into it, else its own shape.
  ImageShape unflattened(std::size_t i) const {
    while (i != kNetworkInput && (is_elementwise(layers[i]) || std::holds_alternative<FlattenSpec>(layers[i].type)))
      i = layers[i].inputs.empty() ? (i == 0 ? kNetworkInput : i - 1) : layers[i].inputs.front();
    return output(i);
  }
};

std::string name_of(const TableReader& r, std::size_t number) {
  return r.has("name") ? r.text("name") : std::to_string(number);
}

void read_inputs(const TableReader& r, const std::string& what, const LayersSoFar& before, LayerSpec& layer) {
  if (std::holds_alternative<AddSpec>(layer.type)) {
    for (const std::string& name : r.texts("inputs", 2)) layer.inputs.push_back(before.find(r, "inputs", name));
  } else if (r.has("input")) {
    layer.inputs = {before.find(r, "input", r.text("input"))};
  }
  const std::size_t first = layer.inputs.empty() ? before.last() : layer.inputs.front();
  layer.input = before.output(first);
  for (const std::size_t other : layer.inputs)
    if (!(before.output(other) == layer.input))
      r.fail(what + " adds '" + before.name(first) + "', which is " + to_string(layer.input) + ", and '" +
             before.name(other) + "', which is " + to_string(before.output(other)) +
             "; make them one shape, with a conv2d of kernel 1 for instance");
}

// A flattened image is kept in another order than PyTorch's, which only what looks at each element alone, and dense,
// whose weights are reordered, need not know.
void check_flattened(const TableReader& r, const std::string& what, const LayersSoFar& before, const LayerSpec& layer) {
  const std::vector<std::size_t> inputs = layer.inputs.empty() ? std::vector{before.last()} : layer.inputs;
  const auto reordered = [](const ImageShape& image, const ImageShape& now) {
    return image.height * image.width > 1 && image.channels > 1 && !(image == now);
  };
  const ImageShape first = before.unflattened(inputs.front());
  for (const std::size_t input : inputs) {
    const ImageShape image = before.unflattened(input);
    if (!reordered(image, layer.input) && !reordered(first, layer.input)) continue;
    if (std::holds_alternative<DenseSpec>(layer.type) || std::holds_alternative<FlattenSpec>(layer.type)) continue;
    if (!is_elementwise(layer))
      r.fail(what + " takes '" + before.name(input) + "', a flattened image; put the flatten behind it");
    if (!(image == first))
      r.fail(what + " adds '" + before.name(inputs.front()) + "' and '" + before.name(input) +
             "', but they are not flattened from images of one shape; add first and flatten then");
  }
}

// What it is, with its keys; the shapes are not known yet. `units`: of a dense layer that does not say; none: it must.
decltype(LayerSpec::type) read_type(const TableReader& r, const std::string& what, std::optional<std::int32_t> units) {
  const std::string type = r.text("type");
  const auto only = [&](std::vector<std::string_view> keys) {
    keys.insert(keys.begin(), {"name", "type", type == "add" ? "inputs" : "input"});
    r.only(keys);
  };
  if (type == "dense") {
    only({"units"});
    return DenseSpec{units ? r.integer_or("units", 1, kMostUnits, *units) : r.integer("units", 1, kMostUnits)};
  }
  if (type == "conv2d") {
    only({"channels", "kernel", "stride", "padding", "groups", "bias"});
    const Conv2dSpec spec{r.integer("channels", 1, kMostUnits),     r.integer("kernel", 1, 64),
                          r.integer_or("stride", 1, 64, 1),         r.integer_or("padding", 0, 63, 0),
                          r.integer_or("groups", 1, kMostUnits, 1), r.boolean_or("bias", true)};
    if (spec.padding >= spec.kernel) r.fail(what + ": 'padding' must be smaller than 'kernel'");
    return spec;
  }
  if (type == "batch_norm") {
    only({"momentum", "epsilon"});
    const BatchNormSpec usual;
    return BatchNormSpec{static_cast<float>(r.number_or("momentum", 0, 1, usual.momentum)),
                         static_cast<float>(r.number_or("epsilon", 1e-12, 1, usual.epsilon))};
  }
  if (type == "dropout") {
    only({"probability"});
    return DropoutSpec{static_cast<float>(r.number_or("probability", 0, 0.999, 0.5))};
  }
  if (type == "max_pool" || type == "avg_pool") {
    only({"window", "stride"});
    const std::int32_t window = r.integer("window", 1, type == "max_pool" ? 15 : 64);
    const std::int32_t stride = r.integer_or("stride", 1, 64, window);
    if (type == "max_pool") return MaxPoolSpec{window, stride};
    return AvgPoolSpec{window, stride};
  }
  static const std::map<std::string, decltype(LayerSpec::type)> without_keys = {
      {"add", AddSpec{}}, {"flatten", FlattenSpec{}}, {"global_avg_pool", GlobalAvgPoolSpec{}}, {"relu", ReluSpec{}}};
  const auto found = without_keys.find(type);
  if (found == without_keys.end())
    r.fail(r.at("type", ""), what + ": unknown type '" + type +
                                 "'; known are add, avg_pool, batch_norm, conv2d, dense, dropout, flatten, "
                                 "global_avg_pool, max_pool, relu");
  only({});
  return found->second;
}

ImageShape output_of(const LayerSpec& layer) {
  const ImageShape& in = layer.input;
  const auto windowed = [&](std::int32_t window, std::int32_t stride, std::int32_t padding, std::int32_t channels) {
    return ImageShape{windows(in.height, padding, window, stride), windows(in.width, padding, window, stride),
                      channels};
  };
  if (const auto* dense = std::get_if<DenseSpec>(&layer.type)) return {1, 1, dense->units};
  if (const auto* conv = std::get_if<Conv2dSpec>(&layer.type))
    return windowed(conv->kernel, conv->stride, conv->padding, conv->channels);
  if (const auto* pool = std::get_if<MaxPoolSpec>(&layer.type))
    return windowed(pool->window, pool->stride, 0, in.channels);
  if (const auto* pool = std::get_if<AvgPoolSpec>(&layer.type))
    return windowed(pool->window, pool->stride, 0, in.channels);
  if (std::holds_alternative<GlobalAvgPoolSpec>(layer.type)) return {1, 1, in.channels};
  if (std::holds_alternative<FlattenSpec>(layer.type)) return {1, 1, static_cast<std::int32_t>(in.size())};
  return in;
}

void check_sizes(const TableReader& r, const std::string& what, const LayerSpec& layer) {
  const ImageShape& in = layer.input;
  if (const auto* dense = std::get_if<DenseSpec>(&layer.type);
      dense && in.size() * dense->units >= std::int64_t{1} << 31)
    r.fail(what + " would have more than 2^31 weights; use fewer units, or pool before it");
  if (const auto* conv = std::get_if<Conv2dSpec>(&layer.type);
      conv && (in.channels % conv->groups != 0 || conv->channels % conv->groups != 0))
    r.fail(what + ": 'groups' is " + std::to_string(conv->groups) + ", which must divide the " +
           std::to_string(in.channels) + " channels of its input and its own " + std::to_string(conv->channels));
  if (layer.output.size() == 0)
    r.fail(what + ": its window does not fit into its input " + to_string(in) + "; use a smaller one, or padding");
  if (layer.output.size() > kMostFeatures)
    r.fail(what + " has more than " + std::to_string(kMostFeatures) + " outputs a sample; make it smaller");
}

LayerSpec read_layer(const fs::path& file, const Table& table, const LayersSoFar& before) {
  const std::size_t number = before.layers.size();
  const std::string what = "layer " + std::to_string(number + 1);
  const TableReader r(file, table, what);
  std::optional<std::int32_t> units;
  if (before.before_the_last()) units = before.samples.classes;
  LayerSpec layer{name_of(r, number), read_type(r, what, units), {}, {}};
  read_inputs(r, what, before, layer);
  check_flattened(r, what, before, layer);
  layer.output = output_of(layer);
  check_sizes(r, what, layer);
  return layer;
}

bool has_parameters(const LayerSpec& layer) {
  return std::holds_alternative<DenseSpec>(layer.type) || std::holds_alternative<Conv2dSpec>(layer.type) ||
         std::holds_alternative<BatchNormSpec>(layer.type);
}

// By name, their places in the list.
std::map<std::string, std::size_t> number_layers(const fs::path& file, const toml::array& tables) {
  std::map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const std::string what = "layer " + std::to_string(i + 1);
    const TableReader r(file, tables[i], what);
    if (!tables[i].is_table()) r.fail(what + " must be a table, [[layer]]");
    const std::string name = name_of(r, i);
    if (!numbers.emplace(name, i).second) r.fail("two layers are named '" + name + "'; names must differ");
  }
  return numbers;
}

void refuse_unread(const fs::path& file, const toml::array& tables, const std::vector<LayerSpec>& layers) {
  std::vector<bool> read(layers.size());
  read.back() = true;  // by the loss
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].inputs.empty() && i > 0) read[i - 1] = true;
    for (std::size_t input : layers[i].inputs)
      if (input != kNetworkInput) read[input] = true;
  }
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (!read[i])
      fail_at(file, tables[i],
              "layer " + std::to_string(i + 1) + " ('" + layers[i].name +
                  "') is the input of no other; name it as one, or take it out");
}

}  // namespace

bool is_elementwise(const LayerSpec& layer) {
  return std::holds_alternative<ReluSpec>(layer.type) || std::holds_alternative<DropoutSpec>(layer.type) ||
         std::holds_alternative<AddSpec>(layer.type);
}

TrainingDefaults training_defaults(OptimizerKind optimizer) {
  TrainingDefaults d{.optimizer = optimizer};
  if (is_adam(optimizer)) d.learning_rate = 0.001;
  if (optimizer == OptimizerKind::adamw) d.weight_decay = 0.01;
  return d;
}

NetworkSpec read_network_spec(const fs::path& file, const std::optional<SampleSpec>& samples) {
  const toml::value root = parse_toml(file);
  const TableReader r(file, root, "a network");
  r.only({"name", "input", "classes", "defaults", "layer"});

  NetworkSpec spec;
  spec.name = r.text("name");
  const SampleSpec otherwise = samples.value_or(kUsualSamples);
  spec.input = r.has("input") ? read_input(r) : otherwise.input;
  spec.classes = r.integer_or("classes", 2, kMostUnits, otherwise.classes);
  spec.any_input = !samples && !r.has("input");
  spec.any_classes = !samples && !r.has("classes");

  if (r.has("defaults")) {
    const Table& table = root.at("defaults");
    if (!table.is_table()) r.fail(table, "'defaults' must be a table, [defaults]");
    const TableReader d(file, table, "[defaults]");
    d.only({"epochs", "batch", "optimizer", "learning_rate", "momentum", "weight_decay", "lr_schedule",
            "lr_step_epochs", "lr_gamma"});
    TrainingDefaults& t = spec.defaults;
    t = training_defaults(d.choice_or("optimizer", kOptimizers, t.optimizer));
    t.epochs = d.integer_or("epochs", 1, 1000000, t.epochs);
    t.batch = d.integer_or("batch", 1, 65536, t.batch);
    t.learning_rate = d.number_or("learning_rate", 0, 1000, t.learning_rate);
    t.momentum = d.number_or("momentum", 0, 1, t.momentum);
    t.weight_decay = d.number_or("weight_decay", 0, 1000, t.weight_decay);
    t.lr_schedule = d.choice_or("lr_schedule", kLrSchedules, t.lr_schedule);
    t.lr_step_epochs = d.integer_or("lr_step_epochs", 1, 1000000, t.lr_step_epochs);
    t.lr_gamma = d.number_or("lr_gamma", 0, 1, t.lr_gamma);
    if (t.lr_schedule == LrSchedule::step && t.lr_step_epochs == 0)
      d.fail("[defaults]: lr_schedule \"step\" needs 'lr_step_epochs', an integer from 1 on");
  }

  const Table& layers = r.at("layer", "its layers, each a table [[layer]]");
  if (!layers.is_array() || layers.as_array().empty()) r.fail(layers, "'layer' must be one or more tables, [[layer]]");
  const toml::array& tables = layers.as_array();
  const std::map<std::string, std::size_t> numbers = number_layers(file, tables);
  for (const Table& table : tables)
    spec.layers.push_back(read_layer(file, table, {spec.layers, numbers, {spec.input, spec.classes}}));
  refuse_unread(file, tables, spec.layers);
  if (std::none_of(spec.layers.begin(), spec.layers.end(), has_parameters))
    r.fail(layers, "nothing in the network can be trained; it needs a dense or conv2d layer");
  const std::int64_t outputs = spec.layers.back().output.size();
  if (outputs != spec.classes)
    r.fail(tables.back(), "the last layer has " + std::to_string(outputs) + " outputs where 'classes' is " +
                              std::to_string(spec.classes) + "; they must be equal");
  return spec;
}

std::vector<std::string> zoo() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(zoo_path(), ignored))
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

fs::path find_network(const std::string& model) {
  if (model.find('/') != std::string::npos || model.ends_with(".toml")) return model;
  const fs::path file = zoo_path() / (model + ".toml");
  if (fs::is_regular_file(file)) return file;
  std::string known;
  for (const auto& name : zoo()) known += (known.empty() ? "" : ", ") + name;
  throw InputError("unknown model '" + model + "'; the zoo has " + (known.empty() ? "none" : known) + " (in " +
                   zoo_path().string() + "), or give the path of a TOML file");
}

}  // namespace prorata
