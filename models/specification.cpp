#include "models/specification.h"

#include "models/errors.h"
#include "models/toml_file.h"
#include "models/zoo_path.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string_view>

namespace prorata {
namespace fs = std::filesystem;
namespace {

using Table = toml::value;

// Reads keys of one table and complains with file and line.
class Reader {
 public:
  Reader(const fs::path& file, const Table& table, std::string what)
      : file_(file), table_(table), what_(std::move(what)) {}

  [[noreturn]] void fail(const Table& at, const std::string& sentence) const { fail_at(file_, at, sentence); }
  [[noreturn]] void fail(const std::string& sentence) const { fail(table_, sentence); }

  void only(std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] : table_.as_table()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      std::string known;
      for (auto k : keys) known += (known.empty() ? "" : ", ") + std::string(k);
      fail(value, what_ + " has no key '" + key + "'; it takes " + known);
    }
  }

  bool has(const std::string& key) const { return table_.contains(key); }

  std::int32_t integer(const std::string& key, std::int64_t least, std::int64_t most) const {
    const Table& v = at(key, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
    if (!v.is_integer() || v.as_integer() < least || v.as_integer() > most)
      fail(v,
           what_ + ": '" + key + "' must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<std::int32_t>(v.as_integer());
  }
  std::int32_t integer_or(const std::string& key, std::int64_t least, std::int64_t most, std::int32_t otherwise) const {
    return has(key) ? integer(key, least, most) : otherwise;
  }

  double number_or(const std::string& key, double least, double most, double otherwise) const {
    if (!has(key)) return otherwise;
    const Table& v = table_.at(key);
    const double number = v.is_floating() ? v.as_floating() : v.is_integer() ? double(v.as_integer()) : -1;
    if (!(v.is_floating() || v.is_integer()) || !(number >= least && number <= most))
      fail(v, what_ + ": '" + key + "' must be a number from " + toml::format(Table(least)) + " to " +
                  toml::format(Table(most)));
    return number;
  }

  std::string text(const std::string& key) const {
    const Table& v = at(key, "a string");
    if (!v.is_string() || v.as_string().str.empty())
      fail(v, what_ + ": '" + key + "' must be a string that is not empty");
    return v.as_string().str;
  }

  // One of several names.
  template <class Named, class Value>
  Value choice_or(const std::string& key, const Named& all, Value otherwise) const {
    if (!has(key)) return otherwise;
    const std::string wanted = text(key);
    std::string known;
    for (const auto& [name, value] : all) {
      if (name == wanted) return value;
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    fail(table_.at(key), what_ + ": '" + key + "' must be one of " + known);
  }

  const Table& at(const std::string& key, const std::string& expected) const {
    if (!has(key)) fail(what_ + " needs '" + key + "', " + expected);
    return table_.at(key);
  }

 private:
  const fs::path& file_;
  const Table& table_;
  std::string what_;
};

constexpr std::int64_t kMostUnits = 1 << 20;
constexpr std::int64_t kMostFeatures = 1 << 24;  // of one sample

ImageShape read_input(const Reader& network) {
  const Table& v = network.at("input", "the shape [height, width, channels]");
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

LayerSpec read_layer(const fs::path& file, const Table& table, std::size_t number, const ImageShape& input) {
  const std::string what = "layer " + std::to_string(number + 1);
  const Reader r(file, table, what);
  if (!table.is_table()) r.fail(what + " must be a table, [[layer]]");
  LayerSpec layer{r.has("name") ? r.text("name") : std::to_string(number), FlattenSpec{}, input, input};
  const std::string type = r.text("type");

  if (type == "dense") {
    r.only({"name", "type", "units"});
    const DenseSpec spec{r.integer("units", 1, kMostUnits)};
    if (input.size() * spec.units >= std::int64_t{1} << 31)
      r.fail(what + " would have more than 2^31 weights; use fewer units, or pool before it");
    layer.type = spec;
    layer.output = {1, 1, spec.units};
  } else if (type == "conv2d") {
    r.only({"name", "type", "channels", "kernel", "stride", "padding"});
    const Conv2dSpec spec{r.integer("channels", 1, kMostUnits), r.integer("kernel", 1, 64),
                          r.integer_or("stride", 1, 64, 1), r.integer_or("padding", 0, 63, 0)};
    if (spec.padding >= spec.kernel) r.fail(what + ": 'padding' must be smaller than 'kernel'");
    layer.type = spec;
    layer.output = {windows(input.height, spec.padding, spec.kernel, spec.stride),
                    windows(input.width, spec.padding, spec.kernel, spec.stride), spec.channels};
  } else if (type == "max_pool") {
    r.only({"name", "type", "window", "stride"});
    const std::int32_t window = r.integer("window", 1, 15);
    const MaxPoolSpec spec{window, r.integer_or("stride", 1, 64, window)};
    layer.type = spec;
    layer.output = {windows(input.height, 0, window, spec.stride), windows(input.width, 0, window, spec.stride),
                    input.channels};
  } else if (type == "relu") {
    r.only({"name", "type"});
    layer.type = ReluSpec{};
  } else if (type == "flatten") {
    r.only({"name", "type"});
    layer.output = {1, 1, static_cast<std::int32_t>(input.size())};
  } else {
    r.fail(table.at("type"), what + ": unknown type '" + type + "'; known are conv2d, dense, flatten, max_pool, relu");
  }
  if (layer.output.size() == 0)
    r.fail(what + ": its window does not fit into its input " + to_string(input) + "; use a smaller one, or padding");
  if (layer.output.size() > kMostFeatures)
    r.fail(what + " has more than " + std::to_string(kMostFeatures) + " outputs a sample; make it smaller");
  return layer;
}

}  // namespace

TrainingDefaults training_defaults(OptimizerKind optimizer) {
  TrainingDefaults d{.optimizer = optimizer};
  if (is_adam(optimizer)) d.learning_rate = 0.001;
  if (optimizer == OptimizerKind::adamw) d.weight_decay = 0.01;
  return d;
}

NetworkSpec read_network_spec(const fs::path& file) {
  const toml::value root = parse_toml(file);
  const Reader r(file, root, "a network");
  r.only({"name", "input", "classes", "defaults", "layer"});

  NetworkSpec spec;
  spec.name = r.text("name");
  spec.input = read_input(r);
  spec.classes = r.integer("classes", 2, kMostUnits);

  if (r.has("defaults")) {
    const Table& table = root.at("defaults");
    if (!table.is_table()) r.fail(table, "'defaults' must be a table, [defaults]");
    const Reader d(file, table, "[defaults]");
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
  ImageShape shape = spec.input;
  std::set<std::string> names;
  for (const Table& table : layers.as_array()) {
    spec.layers.push_back(read_layer(file, table, spec.layers.size(), shape));
    if (!names.insert(spec.layers.back().name).second)
      r.fail(table, "two layers are named '" + spec.layers.back().name + "'; names must differ");
    shape = spec.layers.back().output;
  }
  if (shape.size() != spec.classes)
    r.fail(layers.as_array().back(), "the last layer has " + std::to_string(shape.size()) +
                                         " outputs where 'classes' is " + std::to_string(spec.classes) +
                                         "; they must be equal");
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
