// MATLAB's files as the tests need them.
#pragma once

#include <gtest/gtest.h>
#include <matio.h>

#include <cstdint>
#include <filesystem>
#include <type_traits>
#include <vector>

namespace prorata::test {

// One array, the first dimension fastest, as doubles or as whole numbers.
template <class T>
void write_mat(const std::filesystem::path& file, const char* name, std::vector<std::size_t> dimensions,
               std::vector<T> values, mat_ft version = MAT_FT_MAT5,
               matio_compression compression = MAT_COMPRESSION_ZLIB) {
  static_assert(std::is_same_v<T, double> || std::is_same_v<T, std::int16_t> || std::is_same_v<T, std::uint8_t>);
  const auto [of_array, of_numbers] = std::is_same_v<T, double>         ? std::pair{MAT_C_DOUBLE, MAT_T_DOUBLE}
                                      : std::is_same_v<T, std::int16_t> ? std::pair{MAT_C_INT16, MAT_T_INT16}
                                                                        : std::pair{MAT_C_UINT8, MAT_T_UINT8};
  mat_t* const mat = Mat_CreateVer(file.c_str(), nullptr, version);
  ASSERT_NE(mat, nullptr);
  matvar_t* const array = Mat_VarCreate(name, of_array, of_numbers, static_cast<int>(dimensions.size()),
                                        dimensions.data(), values.data(), 0);
  EXPECT_EQ(Mat_VarWrite(mat, array, compression), 0);
  Mat_VarFree(array);
  Mat_Close(mat);
}

}  // namespace prorata::test
