// Single-precision matrix product on the calling thread, by each library that offers one.
//
// c[m, n] = op(a) op(b), row-major and densely packed: op(a) is [m, k], op(b) is [k, n]; a matrix marked
// Transpose::yes is stored the other way round, a as [k, m] and b as [n, k]. c is overwritten.
// On a device (codelets/device.h) the same, but c = op(a) op(b) + beta c, with beta 0 (c is not read) or 1.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace prorata {

enum class Transpose : bool { no, yes };

struct GemmShape {
  Transpose ta, tb;
  std::int64_t m, n, k;

  std::int64_t row_of_a() const { return ta == Transpose::yes ? m : k; }  // elements from one row to the next
  std::int64_t row_of_b() const { return tb == Transpose::yes ? k : n; }
};

using Gemm = void (*)(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                      const float* b, float* c);

// The libraries behind the kernels, with their versions and the instruction sets that they chose.
std::map<std::string, std::string> library_versions();

void onednn_gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                 const float* b, float* c);
void openblas_gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                   const float* b, float* c);
void openblas_gemm(const GemmShape& shape, const float* a, const float* b, float beta, float* c);

}  // namespace prorata
