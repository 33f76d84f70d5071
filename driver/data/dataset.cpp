#include "driver/data/dataset.h"

#include "driver/data/idx.h"
#include "models/errors.h"
#include "models/random.h"

#include <algorithm>
#include <cmath>

namespace prorata {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kSyntheticStream = 2;  // of Random
constexpr std::size_t kSyntheticTrain = 6000;
constexpr std::size_t kSyntheticTest = 1000;

// An MNIST-like set: its name, its classes, and where it is if nobody says.
struct IdxSet {
  const char* name;
  std::int32_t classes;
  const char* debian;  // directory of a Debian package; null where there is none
};
constexpr IdxSet kIdxSets[] = {
    {"fashion-mnist", 10, "/usr/share/datasets/fashion-mnist"},
    {"mnist", 10, nullptr},
};

fs::path plain_or_compressed(const fs::path& directory, const std::string& name) {
  for (const fs::path& file : {directory / name, directory / (name + ".gz")})
    if (fs::exists(file)) return file;
  throw InputError(directory.string() + ": has neither " + name + " nor " + name +
                   ".gz; give the data set's folder with --data" +
                   (directory == kIdxSets[0].debian ? ", or install the package dataset-fashion-mnist" : ""));
}

Samples read_split(const fs::path& directory, const std::string& prefix, std::int32_t classes, ImageShape& shape) {
  const fs::path image_file = plain_or_compressed(directory, prefix + "-images-idx3-ubyte");
  const fs::path label_file = plain_or_compressed(directory, prefix + "-labels-idx1-ubyte");
  IdxArray images = read_idx(image_file, 3);
  IdxArray labels = read_idx(label_file, 1);
  if (images.dimensions[0] != labels.dimensions[0])
    throw InputError(label_file.string() + ": has " + std::to_string(labels.dimensions[0]) + " labels, but " +
                     image_file.string() + " has " + std::to_string(images.dimensions[0]) +
                     " images; the two must be of the same set");
  const auto wrong = std::find_if(labels.values.begin(), labels.values.end(), [&](auto l) { return l >= classes; });
  if (wrong != labels.values.end())
    throw InputError(label_file.string() + ": at byte " + std::to_string(8 + (wrong - labels.values.begin())) +
                     ": the label is " + std::to_string(*wrong) + ", but labels from 0 to " +
                     std::to_string(classes - 1) + " are expected");
  shape = {static_cast<std::int32_t>(images.dimensions[1]), static_cast<std::int32_t>(images.dimensions[2]), 1};
  return {std::move(images.values), std::move(labels.values)};
}

Dataset read_idx_set(const IdxSet& set, const std::optional<fs::path>& directory) {
  if (!directory && !set.debian)
    throw InputError(std::string("the data set ") + set.name +
                     " has no usual place; give its folder with --data (files " +
                     "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., plain or .gz)");
  const fs::path from = directory ? *directory : fs::path(set.debian);
  if (!fs::is_directory(from))
    throw InputError(from.string() + ": no such folder; give the data set's folder with --data" +
                     (directory ? "" : ", or install the package dataset-fashion-mnist"));
  Dataset data{set.name, {}, set.classes, {}, {}};
  ImageShape test_shape;
  data.train = read_split(from, "train", set.classes, data.shape);
  data.test = read_split(from, "t10k", set.classes, test_shape);
  if (!(data.shape == test_shape))
    throw InputError(from.string() + ": the images of the training and the test files differ in size");
  return data;
}

// Classes that can be told apart but overlap: each class is a random image, each sample its class's image half mixed
// with noise of its own.
Dataset make_synthetic(const NetworkSpec& network, std::uint64_t seed) {
  if (network.classes > 256)
    throw InputError("the synthetic data set has at most 256 classes; the network has " +
                     std::to_string(network.classes));
  Random random(seed, kSyntheticStream);
  const auto features = static_cast<std::size_t>(network.input.size());
  std::vector<double> centres(static_cast<std::size_t>(network.classes) * features);
  for (double& c : centres) c = random.uniform();
  const auto make = [&](std::size_t size) {
    Samples samples;
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint64_t label = random.below(static_cast<std::uint64_t>(network.classes));
      samples.labels.push_back(static_cast<std::uint8_t>(label));
      for (std::size_t f = 0; f < features; ++f)
        samples.images.push_back(
            static_cast<std::uint8_t>(255 * (0.5 * centres[label * features + f] + 0.5 * random.uniform())));
    }
    return samples;
  };
  Dataset data{"synthetic", network.input, network.classes, {}, {}};
  data.train = make(kSyntheticTrain);
  data.test = make(kSyntheticTest);
  return data;
}

std::string to_string(const ImageShape& s) {
  return "[" + std::to_string(s.height) + ", " + std::to_string(s.width) + ", " + std::to_string(s.channels) + "]";
}

}  // namespace

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const IdxSet& set : kIdxSets) names.push_back(set.name);
  names.push_back("synthetic");
  return names;
}

Dataset load_dataset(const std::string& name, const std::optional<fs::path>& directory, const NetworkSpec& network,
                     std::uint64_t seed) {
  if (name == "synthetic") return make_synthetic(network, seed);
  const auto set = std::find_if(std::begin(kIdxSets), std::end(kIdxSets), [&](auto& s) { return name == s.name; });
  if (set == std::end(kIdxSets)) throw InputError("unknown data set '" + name + "'");
  Dataset data = read_idx_set(*set, directory);
  if (!(data.shape == network.input))
    throw InputError("the data set " + name + " has images of shape " + to_string(data.shape) + ", but the network " +
                     network.name + " takes " + to_string(network.input) + "; choose another --model or --dataset");
  if (data.classes != network.classes)
    throw InputError("the data set " + name + " has " + std::to_string(data.classes) + " classes, but the network " +
                     network.name + " has " + std::to_string(network.classes) +
                     "; choose another --model or --dataset");
  return data;
}

Samples load_images(const fs::path& file, const NetworkSpec& network) {
  IdxArray images = read_idx(file, 3);
  const ImageShape shape{static_cast<std::int32_t>(images.dimensions[1]),
                         static_cast<std::int32_t>(images.dimensions[2]), 1};
  if (!(shape == network.input))
    throw InputError(file.string() + ": has images of shape " + to_string(shape) + ", but the network " + network.name +
                     " takes " + to_string(network.input));
  return {std::move(images.values), std::vector<std::uint8_t>(images.dimensions[0])};
}

}  // namespace prorata
