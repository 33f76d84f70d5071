#include "driver/data/npy_set.h"

#include "driver/data/labels.h"
#include "driver/data/npy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace prorata {
namespace fs = std::filesystem;
namespace {

std::string to_string(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t d : shape) text += (text.empty() ? "[" : ", ") + std::to_string(d);
  return (text.empty() ? "[" : text) + "]";
}

// Goes through all of the file, a part at a time.
void refuse_what_is_no_number(const Elements& images, const fs::path& file, std::uint64_t offset) {
  constexpr std::size_t kPart = std::size_t{1} << 22;
  const std::span<const float> values = images.as<float>();
  for (std::size_t from = 0; from < values.size(); from += kPart) {
    const auto part = values.subspan(from, std::min(kPart, values.size() - from));
    const auto wrong = std::find_if(part.begin(), part.end(), [](float v) { return !std::isfinite(v); });
    if (wrong != part.end()) {
      const std::size_t at = from + static_cast<std::size_t>(wrong - part.begin());
      throw InputError(file.string() + ": at byte " + std::to_string(offset + at * sizeof(float)) + ": number " +
                       std::to_string(at) + " is " + std::to_string(*wrong) + "; finite numbers are expected");
    }
    images.forget();
  }
}

Elements read_images(const fs::path& file, const ImageShape& wanted, ImageShape& shape, std::uint64_t& size) {
  const NpyArray array = read_npy_header(file);
  const auto fail = [&file](const std::string& sentence) { throw InputError(file.string() + ": " + sentence); };
  if (array.type != "|u1" && array.type != "<f4")
    fail("the numbers are of the type '" + array.type + "', but uint8 ('|u1') or float32 ('<f4') is expected");
  const std::vector<std::uint64_t>& s = array.shape;
  if (s.size() < 2 || s.size() > 4)
    fail("the shape is " + to_string(s) +
         ", but [n, height, width, channels], [n, height, width] or [n, features] is expected");
  std::uint64_t features = 1;
  for (std::size_t d = 1; d < s.size(); ++d) features *= s[d];
  if (features > std::numeric_limits<std::int32_t>::max() || s[0] > std::numeric_limits<std::uint32_t>::max())
    fail("the shape is " + to_string(s) + ", but at most 2^31 - 1 numbers a sample and 2^32 - 1 samples are expected");
  const auto extent = [&s](std::size_t d) { return static_cast<std::int32_t>(s[d]); };
  if (s.size() == 2)
    shape = wanted.size() == extent(1) ? wanted : ImageShape{1, 1, extent(1)};
  else
    shape = {extent(1), extent(2), s.size() == 4 ? extent(3) : 1};
  size = s[0];

  const ElementType type = array.type == "<f4" ? ElementType::float32 : ElementType::uint8;
  if (array.offset % size_of(type) != 0)
    fail("at byte " + std::to_string(array.offset) +
         ": the numbers begin at no multiple of their size; write the file with numpy.save");
  Elements images = Elements::mapped(file, array.offset, type, array.count);
  if (type == ElementType::float32) refuse_what_is_no_number(images, file, array.offset);
  return images;
}

template <class T>
std::vector<std::int32_t> labels_of(const Elements& bytes, const fs::path& file, std::uint64_t offset,
                                    std::int32_t classes) {
  std::vector<std::int32_t> labels(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    T label;
    std::memcpy(&label, static_cast<const char*>(bytes.data()) + i * sizeof(T), sizeof(T));
    labels[i] = checked_label(std::int64_t{label}, classes,
                              [&] { return file.string() + ": at byte " + std::to_string(offset + i * sizeof(T)); });
  }
  return labels;
}

std::vector<std::int32_t> read_labels(const fs::path& file, std::int32_t classes) {
  const NpyArray array = read_npy_header(file);
  if (array.shape.size() != 1)
    throw InputError(file.string() + ": the shape is " + to_string(array.shape) + ", but [n] is expected");
  const auto labels = [&](auto type) {
    using T = decltype(type);
    const Elements bytes = Elements::mapped(file, array.offset, ElementType::uint8, array.count * sizeof(T));
    return labels_of<T>(bytes, file, array.offset, classes);
  };
  if (array.type == "|u1") return labels(std::uint8_t{});
  if (array.type == "<i4") return labels(std::int32_t{});
  if (array.type == "<i8") return labels(std::int64_t{});
  throw InputError(file.string() + ": the labels are of the type '" + array.type +
                   "', but uint8 ('|u1'), int32 ('<i4') or int64 ('<i8') is expected");
}

std::int32_t largest(const std::vector<std::int32_t>& labels) {
  return labels.empty() ? 0 : *std::max_element(labels.begin(), labels.end());
}

Samples read_split(const fs::path& directory, const std::string& split, const NetworkSpec& network, ImageShape& shape) {
  const fs::path image_file = directory / (split + "_images.npy"), label_file = directory / (split + "_labels.npy");
  std::uint64_t size = 0;
  Samples samples;
  samples.images = read_images(image_file, network.input, shape, size);
  samples.labels = read_labels(label_file, network.any_classes ? kMostClasses : network.classes);
  if (samples.size() != size)
    throw InputError(label_file.string() + ": has " + std::to_string(samples.size()) + " labels, but " +
                     image_file.string() + " has " + std::to_string(size) + " images; the two must be of the same set");
  return samples;
}

}  // namespace

Dataset read_npy_set(const fs::path& directory, const NetworkSpec& network) {
  Dataset data{"npy", {}, network.classes, {}, {}};
  ImageShape of_test;
  data.train = read_split(directory, "train", network, data.shape);
  data.test = read_split(directory, "test", network, of_test);
  if (!(data.shape == of_test))
    throw InputError(directory.string() + ": the images of the training and the test files differ in size");
  if (data.train.images.type() != data.test.images.type())
    throw InputError(directory.string() + ": the images of the training and the test files differ in type");
  if (network.any_classes) data.classes = std::max({1, largest(data.train.labels), largest(data.test.labels)}) + 1;
  return data;
}

}  // namespace prorata
