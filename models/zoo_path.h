// Where the zoo's files are.
#pragma once

#include <filesystem>

namespace prorata {

// $PRORATA_ZOO where set; else beside the installed program, share/prorata/zoo; else in the source tree.
std::filesystem::path zoo_path();

}  // namespace prorata
