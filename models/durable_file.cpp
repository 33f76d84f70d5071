#include "models/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace prorata {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw std::runtime_error(path.string() + ": " + what + ": " + std::strerror(errno));
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

void write_all(int fd, std::string_view data, const fs::path& file) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(file, "cannot be written");
    data.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

void write_durably(const fs::path& file, std::initializer_list<std::string_view> parts) {
  const Descriptor out{::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (out.fd < 0) fail(file, "cannot be created");
  for (const std::string_view part : parts) write_all(out.fd, part, file);
  if (::fsync(out.fd) != 0) fail(file, "cannot be written");
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "cannot be renamed to " + to.string());
  sync_path(to.has_parent_path() ? to.parent_path() : fs::path("."));
}

void sync_path(const fs::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail(path, "cannot be opened");
  // Some file systems cannot sync a folder; then there is nothing more to be done.
  if (::fsync(file.fd) != 0 && errno != EINVAL) fail(path, "cannot be written");
}

}  // namespace prorata
