// The NPY format of NumPy, versions 1.0 to 3.0, as far as the header: the numbers stay in the file.
//
// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. "\x93NUMPY", the version in two
// bytes, the header's length in two bytes (1.0) or four, the header, which is a Python dictionary, and the numbers.
//
// There is no library for it here: cnpy is not in Debian 12, and what there is (xtensor) copies all of a file and knows
// no version 3.0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace prorata {

struct NpyArray {
  std::string type;                  // NumPy's: "|u1", "<f4", ...
  std::vector<std::uint64_t> shape;  // the last dimension is the fastest
  std::uint64_t offset = 0;          // in the file, of the first number
  std::uint64_t count = 0;           // of the numbers, all of which are there
};

// InputError names file, offset and expectation: no file, a wrong magic number or header, numbers that are no numbers
// or not in this machine's order of bytes, Fortran's order of dimensions, sizes that are absurd, too few bytes or too
// many.
NpyArray read_npy_header(const std::filesystem::path& file);

}  // namespace prorata
