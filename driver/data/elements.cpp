#include "driver/data/elements.h"

#include "models/errors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace prorata {
namespace {

// From the page's begin that `at` lies in.
std::uintptr_t page_of(std::uintptr_t at) { return at - at % static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

Elements Elements::mapped(const std::filesystem::path& file, std::uint64_t offset, ElementType type, std::size_t size) {
  const auto fail = [&file](const char* what) {
    throw InputError(file.string() + ": " + what + ": " + std::strerror(errno));
  };
  const std::uint64_t from = page_of(offset);
  const std::size_t length = offset - from + size * size_of(type);
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot be opened");
  void* const memory = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor, static_cast<off_t>(from));
  close(descriptor);
  if (memory == MAP_FAILED) fail("cannot be mapped into memory");

  Elements elements;
  elements.type_ = type;
  elements.size_ = size;
  elements.mapped_ = true;
  const std::shared_ptr<const void> whole(memory, [length](const void* m) { munmap(const_cast<void*>(m), length); });
  elements.data_ = {whole, static_cast<const std::byte*>(memory) + (offset - from)};
  return elements;
}

void Elements::forget() const {
  if (!mapped_) return;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(data()), from = page_of(begin);
  madvise(reinterpret_cast<void*>(from), begin - from + bytes(), MADV_DONTNEED);
}

}  // namespace prorata
