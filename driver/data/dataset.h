// Data sets: what they are called, where they are found, and reading them.
#pragma once

#include "models/specification.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace prorata {

struct Samples {
  std::vector<std::uint8_t> images;  // [size, height, width, channels]
  std::vector<std::uint8_t> labels;  // [size], all below `classes`

  std::size_t size() const { return labels.size(); }
};

struct Dataset {
  std::string name;
  ImageShape shape;
  std::int32_t classes;
  Samples train;
  Samples test;
};

// The names that load_dataset knows.
std::vector<std::string> dataset_names();

// `directory`: where the files are; without it, where Debian's package puts them. `network`: its input and classes,
// which the data set must fit (a synthetic one is made to). `seed`: of a synthetic one. InputError names file,
// offset and expectation.
Dataset load_dataset(const std::string& name, const std::optional<std::filesystem::path>& directory,
                     const NetworkSpec& network, std::uint64_t seed);

// Images without labels (all are 0) from an IDX file, plain or compressed. InputError names file and expectation: also
// where the network takes images of another shape.
Samples load_images(const std::filesystem::path& file, const NetworkSpec& network);

}  // namespace prorata
