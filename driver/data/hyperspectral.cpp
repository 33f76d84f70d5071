#include "driver/data/hyperspectral.h"

#include "driver/data/mat.h"
#include "models/errors.h"
#include "models/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace prorata {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kSplitStream = 3;  // of Random

struct Scene {
  MatVariable cube, truth;
  std::size_t rows, columns, bands;
};

const MatVariable& only(const std::vector<const MatVariable*>& found, const std::vector<fs::path>& files,
                        const fs::path& directory, const char* what) {
  if (found.size() == 1) return *found[0];
  std::string sentence = directory.string() + ": in the .mat files of this folder one " + what + " is expected, but ";
  if (found.empty()) {
    sentence += "there is none";
    for (const fs::path& file : files) sentence += (file == files[0] ? " in " : ", ") + file.filename().string();
  }
  for (const MatVariable* v : found) sentence += (v == found[0] ? "there are " : ", ") + v->to_string();
  if (!found.empty()) sentence += "; leave one of them there";
  throw InputError(sentence);
}

Scene find_scene(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().extension() == ".mat") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<MatVariable> all;
  for (const fs::path& file : files) {
    const std::vector<MatVariable> some = list_mat(file);
    all.insert(all.end(), some.begin(), some.end());
  }
  const auto choose = [&](auto wanted) {
    std::vector<const MatVariable*> found;
    for (const MatVariable& v : all)
      if (wanted(v.dimensions)) found.push_back(&v);
    return found;
  };
  const MatVariable& cube =
      only(choose([](const auto& d) { return d.size() == 3; }), files, directory, "cube [rows, columns, bands]");
  const std::size_t rows = cube.dimensions[0], columns = cube.dimensions[1], bands = cube.dimensions[2];
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  if (rows == 0 || columns == 0 || bands == 0 || rows > kMost / columns || bands > kMost)
    throw InputError(cube.to_string() + ": from 1 to 2^31 - 1 pixels and bands are expected");
  const auto of_same_pixels = [&](const auto& d) { return d.size() == 2 && d[0] == rows && d[1] == columns; };
  const std::string what = "ground truth [" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  return {cube, only(choose(of_same_pixels), files, directory, what.c_str()), rows, columns, bands};
}

std::string place(const Scene& s, std::size_t pixel) {
  return "at row " + std::to_string(pixel / s.columns) + ", column " + std::to_string(pixel % s.columns);
}

// [rows, columns, bands], each band normalised.
std::vector<float> read_cube(const Scene& s) {
  const std::vector<double> values = read_mat(s.cube);
  const std::size_t pixels = s.rows * s.columns;
  std::vector<float> cube(values.size());
  for (std::size_t b = 0; b < s.bands; ++b) {
    const double* const band = values.data() + b * pixels;  // column by column
    const auto pixel_of = [&s](std::size_t i) { return i % s.rows * s.columns + i / s.rows; };
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < pixels; ++i) {
      if (!(std::abs(band[i]) <= std::numeric_limits<float>::max()))
        throw InputError(s.cube.to_string() + ": " + place(s, pixel_of(i)) + ", band " + std::to_string(b) +
                         ": the number is " + std::to_string(band[i]) +
                         "; finite numbers in a float's range are expected");
      sum += band[i];
    }
    const double mean = sum / static_cast<double>(pixels);
    for (std::size_t i = 0; i < pixels; ++i) squares += (band[i] - mean) * (band[i] - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(pixels));
    const double factor = deviation > 0 ? 1 / deviation : 1;
    for (std::size_t i = 0; i < pixels; ++i)
      cube[pixel_of(i) * s.bands + b] = static_cast<float>((band[i] - mean) * factor);
  }
  return cube;
}

// By class, its pixels (row * columns + column).
std::vector<std::vector<std::uint32_t>> read_truth(const Scene& s, std::int32_t classes) {
  const std::vector<double> values = read_mat(s.truth);
  std::vector<std::vector<std::uint32_t>> pixels(static_cast<std::size_t>(classes));
  for (std::size_t pixel = 0; pixel < values.size(); ++pixel) {
    const double value = values[pixel % s.columns * s.rows + pixel / s.columns];
    if (value == 0) continue;
    if (!(value >= 1 && value <= classes && value == std::floor(value)))
      throw InputError(s.truth.to_string() + ": " + place(s, pixel) + ": the class is " + std::to_string(value) +
                       ", but whole numbers from 1 to the network's " + std::to_string(classes) +
                       " classes, or 0 where there is none, are expected");
    pixels[static_cast<std::size_t>(value) - 1].push_back(static_cast<std::uint32_t>(pixel));
  }
  for (std::size_t c = 0; c < pixels.size(); ++c)
    if (pixels[c].size() < 2)
      throw InputError(s.truth.to_string() + ": class " + std::to_string(c + 1) + " of the network's " +
                       std::to_string(classes) + " has " + std::to_string(pixels[c].size()) +
                       " pixel(s); 2 are expected at least, one for training and one for the test");
  return pixels;
}

std::size_t for_training(std::size_t pixels, double per_class) {
  const double wanted = per_class < 1 ? per_class * static_cast<double>(pixels) : per_class;
  const auto half = pixels / 2;
  return wanted > static_cast<double>(half) && per_class >= 1
             ? half
             : std::clamp<std::size_t>(static_cast<std::size_t>(std::lround(wanted)), 1, pixels - 1);
}

}  // namespace

Dataset read_hyperspectral(const fs::path& directory, const NetworkSpec& network, const Preparation& preparation) {
  if (network.any_input || network.any_classes)
    throw InputError(
        "the network " + network.name +
        " leaves its input or its classes to the data set, but a scene needs both: input = [height, width, "
        "bands] says how large the windows around a pixel are; choose another --model, or write them into a "
        "copy of its file");
  const Scene s = find_scene(directory);
  // Before the numbers are read, of which a damaged header may claim any number.
  if (static_cast<std::size_t>(network.input.channels) != s.bands)
    throw InputError(s.cube.to_string() + ": has " + std::to_string(s.bands) + " bands, but the network " +
                     network.name + " takes " + to_string(network.input) + "; choose another --model or --dataset");
  const auto bands = static_cast<std::int32_t>(s.bands);
  Dataset data{"hyperspectral", {network.input.height, network.input.width, bands}, network.classes, {}, {}};
  if (static_cast<std::size_t>(data.shape.height / 2) > s.rows ||
      static_cast<std::size_t>(data.shape.width / 2) > s.columns)
    throw InputError(s.cube.to_string() + ": is less than half as high or wide as the network's windows of " +
                     to_string(network.input));
  std::vector<std::vector<std::uint32_t>> pixels = read_truth(s, network.classes);
  const Elements cube = read_cube(s);
  for (Samples* samples : {&data.train, &data.test}) {
    samples->images = cube;
    samples->patches = {static_cast<std::int32_t>(s.rows), static_cast<std::int32_t>(s.columns), {}};
  }
  for (std::size_t c = 0; c < pixels.size(); ++c) {
    Random(preparation.split_seed.value_or(kSplitSeed), kSplitStream << 32 | c).shuffle(pixels[c]);
    const std::size_t training = for_training(pixels[c].size(), preparation.train_per_class.value_or(kTrainPerClass));
    for (std::size_t i = 0; i < pixels[c].size(); ++i) {
      Samples& samples = i < training ? data.train : data.test;
      samples.patches->places.push_back(pixels[c][i]);
      samples.labels.push_back(static_cast<std::int32_t>(c));
    }
  }
  return data;
}

}  // namespace prorata
