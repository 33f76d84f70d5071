// Data sets: what they are called, where they are found, and reading them.
#pragma once

#include "driver/data/elements.h"
#include "models/specification.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace prorata {

// Samples that are windows of one scene: sample i is that around the pixel places[i] (row * columns + column).
struct Patches {
  std::int32_t rows, columns;
  std::vector<std::uint32_t> places;
};

struct Samples {
  Elements images;                   // [size, height, width, channels]; of patches: the scene [rows, columns, channels]
  std::vector<std::int32_t> labels;  // [size], all below `classes`
  std::optional<Patches> patches = {};
  std::vector<float> normalization = {};  // [2, channels]: mean and factor; see codelets/preprocess.h

  std::size_t size() const { return labels.size(); }
  // Of what tasks read.
  std::size_t bytes() const;
};

// Bytes count from 0 to 1, floats are what they are.
constexpr float scale_of(ElementType type) { return type == ElementType::uint8 ? 1.0f / 255 : 1.0f; }

struct Dataset {
  std::string name;
  ImageShape shape;
  std::int32_t classes = 0;
  Samples train;
  Samples test;
};

constexpr const char* kHyperspectral = "hyperspectral";  // the data set that is a scene

// How a data set is prepared beyond being read.
struct Preparation {
  bool normalize = false;  // by mean and standard deviation of each channel over the training set
  // Of a scene only:
  std::optional<double> train_per_class = {};    // training pixels of each class, or below 1 the fraction
  std::optional<std::uint64_t> split_seed = {};  // which ones
};
constexpr double kTrainPerClass = 0.1;  // where nobody says
constexpr std::uint64_t kSplitSeed = 1;

// The names that load_dataset knows.
std::vector<std::string> dataset_names();

// `directory`: where the files are; without it, where Debian's package puts them. `network`: its input and classes,
// which the data set must fit unless they are open (a synthetic one is made to them). `seed`: of a synthetic one.
// InputError names file, offset and expectation.
Dataset load_dataset(const std::string& name, const std::optional<std::filesystem::path>& directory,
                     const NetworkSpec& network, std::uint64_t seed, const Preparation& preparation = {});

// A network and what it is to work on, each fit for the other.
struct NetworkAndData {
  NetworkSpec network;
  Dataset data;
};

// What a network's file leaves open is the data set's. InputError as of both.
NetworkAndData load_network_and_data(const std::filesystem::path& network_file, const std::string& name,
                                     const std::optional<std::filesystem::path>& directory, std::uint64_t seed,
                                     const Preparation& preparation);

// "[height, width, channels]"
std::string to_string(const ImageShape& shape);

// A test set of images without labels (all are 0) from an IDX file, plain or compressed. InputError names file and
// expectation: also where the network takes images of another shape.
Dataset load_images(const std::filesystem::path& file, const NetworkSpec& network);

}  // namespace prorata
