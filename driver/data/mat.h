// Arrays of numbers in MATLAB's files (.mat, versions 4 to 7.3), read with matio.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace prorata {

struct MatVariable {
  std::filesystem::path file;
  std::string name;
  std::vector<std::size_t> dimensions;

  std::string to_string() const;  // "name [145, 145, 200] in FILE"
};

// The real, full arrays of numbers in a file, without their numbers. InputError names the file where it is not
// MATLAB's, or damaged.
std::vector<MatVariable> list_mat(const std::filesystem::path& file);

// Their numbers, the first dimension fastest, as MATLAB has them. InputError names file and variable where they are
// damaged. (What dimensions claim beyond the numbers of an array that is not compressed, matio gives as 0 and does not
// tell; compressed arrays have a checksum.)
std::vector<double> read_mat(const MatVariable& variable);

}  // namespace prorata
