// The numbers of a data set, read-only: in memory of their own, or where a file is mapped. A mapped file takes memory
// only as far as it is used, and gives it back where memory is short; so a data set may be larger than memory.
//
// A file that is made shorter by others while it is mapped ends the program (SIGBUS): data sets are to be left alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace prorata {

enum class ElementType { uint8, float32 };

constexpr std::size_t size_of(ElementType type) { return type == ElementType::uint8 ? 1 : sizeof(float); }

template <class T>
constexpr ElementType element_type() {
  static_assert(std::is_same_v<T, std::uint8_t> || std::is_same_v<T, float>);
  return std::is_same_v<T, float> ? ElementType::float32 : ElementType::uint8;
}

// Copies share what they hold.
class Elements {
 public:
  Elements() = default;
  template <class T>
  Elements(std::vector<T> values)  // NOLINT(google-explicit-constructor): it is the same numbers
      : type_(element_type<T>()), size_(values.size()) {
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    data_ = {owner, owner->data()};
  }
  // The numbers of a file from byte `offset` on, which must be a multiple of their size; the file must have that many.
  // InputError where it cannot be mapped.
  static Elements mapped(const std::filesystem::path& file, std::uint64_t offset, ElementType type, std::size_t size);

  ElementType type() const { return type_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * size_of(type_); }
  const void* data() const { return data_.get(); }
  bool mapped() const { return mapped_; }
  // Throws std::logic_error where they are of another type.
  template <class T>
  std::span<const T> as() const {
    if (type_ != element_type<T>()) throw std::logic_error("the elements are of another type");
    return {static_cast<const T*>(data()), size_};
  }

  // What was read of a mapped file until now need not stay in memory. For whoever goes once over a large one.
  void forget() const;

 private:
  ElementType type_ = ElementType::uint8;
  std::size_t size_ = 0;
  bool mapped_ = false;
  std::shared_ptr<const void> data_;
};

}  // namespace prorata
