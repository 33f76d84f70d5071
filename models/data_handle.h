// A StarPU data handle of a vector, unregistered when it goes.
#pragma once

#include "codelets/backend/pinned_memory.h"

#include <starpu.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace prorata {

class DataHandle {
 public:
  DataHandle() = default;

  // `count` elements wherever StarPU needs them first: for what only tasks touch.
  static DataHandle temporary(std::size_t count, std::size_t element_size) {
    DataHandle h;
    ++alive_;
    starpu_vector_data_register(&h.handle_, -1, 0, static_cast<std::uint32_t>(count), element_size);
    return h;
  }

  // `count` elements that live in main memory at `data`, which must outlive the handle. On destruction they are brought
  // back. `element_size`: in bytes, where an element is more than one T.
  template <class T>
  static DataHandle in_main_memory(T* data, std::size_t count, std::size_t element_size = sizeof(T)) {
    DataHandle h;
    ++alive_;
    starpu_vector_data_register(&h.handle_, STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(data),
                                static_cast<std::uint32_t>(count), element_size);
    return h;
  }

  DataHandle(DataHandle&& other) noexcept
      : pinned_(std::move(other.pinned_)), handle_(std::exchange(other.handle_, nullptr)) {}
  DataHandle& operator=(DataHandle&& other) noexcept {
    std::swap(pinned_, other.pinned_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~DataHandle() {
    if (!handle_) return;
    starpu_data_unregister(handle_);
    --alive_;
  }

  // How many are registered now: to see that none is left behind.
  static long alive() { return alive_; }

  starpu_data_handle_t get() const { return handle_; }

  // Brings what it is of to main memory, where it may be read then, and changed where `mode` is STARPU_RW. Not while
  // tasks that use it are in flight. Throws std::runtime_error if a device does not give it.
  void fetch(starpu_data_access_mode mode) const {
    if (const int error = starpu_data_acquire(handle_, mode); error != 0)
      throw std::runtime_error("the parameters could not be fetched from a device: " +
                               std::string(std::strerror(-error)));
    starpu_data_release(handle_);
  }

  // Its main memory is pinned for CUDA devices as long as the handle lives: for what often travels, or is large. No
  // memory that is a file's, mapped.
  DataHandle&& pinned() && {
    pinned_ = PinnedMemory(starpu_data_handle_to_pointer(handle_, STARPU_MAIN_RAM), starpu_data_get_size(handle_));
    return std::move(*this);
  }

  // Tasks are not ordered by their submission on this handle: only readers and writers that are ready or running
  // exclude each other.
  DataHandle&& unordered() && {
    starpu_data_set_sequential_consistency_flag(handle_, 0);
    return std::move(*this);
  }

 private:
  PinnedMemory pinned_;
  starpu_data_handle_t handle_ = nullptr;
  inline static std::atomic<long> alive_{0};
};

}  // namespace prorata
