// Main memory that CUDA devices copy from and to, pinned: a copy then has the bus's whole speed, and goes on beside the
// work of the device and of whoever asked for it.
//
// Threads: the main thread, while StarPU runs.
#pragma once

#include <cstddef>
#include <utility>

namespace prorata {

// Pinned while this lives, where StarPU has CUDA workers, and where the driver lets it; else nothing is done. To go
// only when StarPU does not know the memory any more.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(void* memory, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

 private:
  void* memory_ = nullptr;  // null: nothing is pinned
  std::size_t bytes_ = 0;
};

}  // namespace prorata
