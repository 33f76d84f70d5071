#include "codelets/backend/gemm.h"

#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>

#include <stdexcept>

namespace prorata {

std::map<std::string, std::string> library_versions() {
  const dnnl_version_t* onednn = dnnl_version();
  return {{"oneDNN", std::to_string(onednn->major) + "." + std::to_string(onednn->minor) + "." +
                         std::to_string(onednn->patch) + " isa " + std::to_string(dnnl_get_effective_cpu_isa())},
          {"OpenBLAS", std::string(openblas_get_config()) + " for " + openblas_get_corename()}};
}

void onednn_gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                 const float* b, float* c) {
  const bool at = ta == Transpose::yes;
  const bool bt = tb == Transpose::yes;
  if (dnnl_sgemm(at ? 'T' : 'N', bt ? 'T' : 'N', m, n, k, 1.0f, a, at ? m : k, b, bt ? k : n, 0.0f, c, n) !=
      dnnl_success)
    throw std::runtime_error("oneDNN could not multiply matrices (dnnl_sgemm failed)");
}

void openblas_gemm(const GemmShape& s, const float* a, const float* b, float beta, float* c) {
  const auto op = [](Transpose t) { return t == Transpose::yes ? CblasTrans : CblasNoTrans; };
  const auto length = [](std::int64_t n) { return static_cast<blasint>(n); };
  cblas_sgemm(CblasRowMajor, op(s.ta), op(s.tb), length(s.m), length(s.n), length(s.k), 1.0f, a, length(s.row_of_a()),
              b, length(s.row_of_b()), beta, c, length(s.n));
}

void openblas_gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                   const float* b, float* c) {
  openblas_gemm({ta, tb, m, n, k}, a, b, 0.0f, c);
}

}  // namespace prorata
