// The IDX format of the MNIST family, plain or compressed by gzip.
//
// Source: http://yann.lecun.com/exdb/mnist. Big-endian: two zero bytes, the element type, the number of dimensions,
// each dimension in four bytes, then the elements, the last dimension fastest.
#pragma once

#include "driver/data/elements.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace prorata {

struct IdxArray {
  std::vector<std::uint32_t> dimensions;
  Elements values;  // mapped where the file is not compressed
};

// Reads unsigned bytes in `dimensions` dimensions. InputError names file, offset in the (uncompressed) data and
// expectation: a missing file, a wrong magic number, sizes that are absurd, too few bytes or too many.
IdxArray read_idx(const std::filesystem::path& file, std::size_t dimensions);

}  // namespace prorata
