#include "driver/data/dataset.h"

#include "driver/data/cifar10.h"
#include "driver/data/hyperspectral.h"
#include "driver/data/idx.h"
#include "driver/data/labels.h"
#include "driver/data/normalize.h"
#include "driver/data/npy_set.h"
#include "models/errors.h"
#include "models/random.h"

#include <algorithm>
#include <limits>

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
  for (const std::size_t d : {1, 2})
    if (images.dimensions[d] > std::numeric_limits<std::int32_t>::max())
      throw InputError(image_file.string() + ": at byte " + std::to_string(4 + 4 * d) + ": the images are " +
                       std::to_string(images.dimensions[d]) + " pixels high or wide; at most 2^31 - 1 are expected");
  shape = {static_cast<std::int32_t>(images.dimensions[1]), static_cast<std::int32_t>(images.dimensions[2]), 1};
  Samples samples{std::move(images.values), {}};
  for (const std::uint8_t label : labels.values.as<std::uint8_t>())
    samples.labels.push_back(checked_label(label, classes, [&] {
      return label_file.string() + ": at byte " + std::to_string(8 + samples.labels.size());
    }));
  return samples;
}

fs::path folder(const std::string& set, const std::optional<fs::path>& directory, const char* files) {
  if (!directory)
    throw InputError("the data set " + set + " has no usual place; give its folder with --data (files " + files + ")");
  if (!fs::is_directory(*directory))
    throw InputError(directory->string() + ": no such folder; give the data set's folder with --data");
  return *directory;
}

Dataset read_idx_set(const IdxSet& set, const std::optional<fs::path>& directory) {
  if (!directory && set.debian && !fs::is_directory(set.debian))
    throw InputError(std::string(set.debian) +
                     ": no such folder; give the data set's folder with --data, or install the package " +
                     "dataset-fashion-mnist");
  const fs::path from =
      !directory && set.debian
          ? fs::path(set.debian)
          : folder(set.name, directory, "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., plain or .gz");
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
  Random random(seed, kSyntheticStream);
  const auto features = static_cast<std::size_t>(network.input.size());
  std::vector<double> centres(static_cast<std::size_t>(network.classes) * features);
  for (double& c : centres) c = random.uniform();
  const auto make = [&](std::size_t size) {
    std::vector<std::uint8_t> images;
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint64_t label = random.below(static_cast<std::uint64_t>(network.classes));
      labels.push_back(static_cast<std::int32_t>(label));
      for (std::size_t f = 0; f < features; ++f)
        images.push_back(
            static_cast<std::uint8_t>(255 * (0.5 * centres[label * features + f] + 0.5 * random.uniform())));
    }
    return Samples{std::move(images), std::move(labels)};
  };
  Dataset data{"synthetic", network.input, network.classes, {}, {}};
  data.train = make(kSyntheticTrain);
  data.test = make(kSyntheticTest);
  return data;
}

// Every data set that is read, and how.
struct Reader {
  const char* name;
  Dataset (*read)(const std::string& name, const std::optional<fs::path>& directory, const NetworkSpec& network,
                  const Preparation& preparation);
};

Dataset read_named_idx(const std::string& name, const std::optional<fs::path>& directory, const NetworkSpec&,
                       const Preparation&) {
  return read_idx_set(*std::find_if(std::begin(kIdxSets), std::end(kIdxSets),
                                    [&](const IdxSet& s) { return name == s.name; }),
                      directory);
}

constexpr Reader kReaders[] = {
    {"fashion-mnist", read_named_idx},
    {"mnist", read_named_idx},
    {"cifar10",
     [](const std::string& name, const std::optional<fs::path>& directory, const NetworkSpec&, const Preparation&) {
       return read_cifar10(folder(name, directory, "data_batch_1.bin to data_batch_5.bin, test_batch.bin"));
     }},
    {"npy",
     [](const std::string& name, const std::optional<fs::path>& directory, const NetworkSpec& network,
        const Preparation&) {
       return read_npy_set(
           folder(name, directory, "train_images.npy, train_labels.npy, test_images.npy, test_labels.npy"), network);
     }},
    {kHyperspectral,
     [](const std::string& name, const std::optional<fs::path>& directory, const NetworkSpec& network,
        const Preparation& preparation) {
       return read_hyperspectral(folder(name, directory, "*.mat: a cube and its ground truth"), network, preparation);
     }},
};

// InputError where the network cannot take it.
void check_fit(const Dataset& data, const NetworkSpec& network) {
  if (!network.any_input && !(data.shape == network.input))
    throw InputError("the data set " + data.name + " has images of shape " + to_string(data.shape) +
                     ", but the network " + network.name + " takes " + to_string(network.input) +
                     "; choose another --model or --dataset");
  if (!network.any_classes && data.classes != network.classes)
    throw InputError("the data set " + data.name + " has " + std::to_string(data.classes) +
                     " classes, but the network " + network.name + " has " + std::to_string(network.classes) +
                     "; choose another --model or --dataset");
}

}  // namespace

std::string to_string(const ImageShape& s) {
  return "[" + std::to_string(s.height) + ", " + std::to_string(s.width) + ", " + std::to_string(s.channels) + "]";
}

std::size_t Samples::bytes() const {
  return images.bytes() + labels.size() * sizeof(labels[0]) +
         (patches ? patches->places.size() * sizeof(patches->places[0]) : 0) +
         normalization.size() * sizeof(normalization[0]);
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const Reader& reader : kReaders) names.emplace_back(reader.name);
  names.emplace_back("synthetic");
  return names;
}

Dataset load_dataset(const std::string& name, const std::optional<fs::path>& directory, const NetworkSpec& network,
                     std::uint64_t seed, const Preparation& preparation) {
  if (name != kHyperspectral && (preparation.train_per_class || preparation.split_seed))
    throw InputError("--train-per-class and --split-seed divide the scene of the data set " +
                     std::string(kHyperspectral) + "; the data set " + name + " is divided already");
  Dataset data;
  if (name == "synthetic") {
    data = make_synthetic(network, seed);
  } else {
    const auto reader = std::find_if(std::begin(kReaders), std::end(kReaders), [&](auto& r) { return name == r.name; });
    if (reader == std::end(kReaders)) throw InputError("unknown data set '" + name + "'");
    try {
      data = reader->read(name, directory, network, preparation);
    } catch (const fs::filesystem_error& e) {
      throw InputError(e.path1().string() + ": cannot be read: " + e.code().message());
    }
    check_fit(data, network);
  }
  if (preparation.normalize && data.train.patches)
    throw InputError("the bands of the data set " + name + " are normalised already; leave out --normalize");
  const auto channels = static_cast<std::size_t>(data.shape.channels);
  data.train.normalization.resize(channels, 0.0f);  // as they are
  data.train.normalization.resize(2 * channels, 1.0f);
  data.test.normalization = data.train.normalization;
  if (preparation.normalize) normalize(data);
  return data;
}

NetworkAndData load_network_and_data(const fs::path& network_file, const std::string& name,
                                     const std::optional<fs::path>& directory, std::uint64_t seed,
                                     const Preparation& preparation) {
  Dataset data = load_dataset(name, directory, read_network_spec(network_file), seed, preparation);
  return {read_network_spec(network_file, SampleSpec{data.shape, data.classes}), std::move(data)};
}

Dataset load_images(const fs::path& file, const NetworkSpec& network) {
  IdxArray images = read_idx(file, 3);
  const ImageShape shape{static_cast<std::int32_t>(images.dimensions[1]),
                         static_cast<std::int32_t>(images.dimensions[2]), 1};
  if (!network.any_input && !(shape == network.input))
    throw InputError(file.string() + ": has images of shape " + to_string(shape) + ", but the network " + network.name +
                     " takes " + to_string(network.input));
  Dataset data{"samples", shape, network.classes, {}, {}};
  data.test = {std::move(images.values), std::vector<std::int32_t>(images.dimensions[0])};
  return data;
}

}  // namespace prorata
