#include "models/zoo_path.h"

#include <cstdlib>

namespace prorata {
namespace fs = std::filesystem;

fs::path zoo_path() {
  if (const char* set = std::getenv("PRORATA_ZOO"); set && *set) return set;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!ignored) {
    const fs::path installed = program.parent_path().parent_path() / PRORATA_INSTALLED_ZOO;
    if (fs::is_directory(installed, ignored)) return installed;
  }
  return PRORATA_SOURCE_ZOO;
}

}  // namespace prorata
