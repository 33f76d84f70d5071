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

void openblas_gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                   const float* b, float* c) {
  const bool at = ta == Transpose::yes;
  const bool bt = tb == Transpose::yes;
  cblas_sgemm(CblasRowMajor, at ? CblasTrans : CblasNoTrans, bt ? CblasTrans : CblasNoTrans, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), 1.0f, a, static_cast<blasint>(at ? m : k), b,
              static_cast<blasint>(bt ? k : n), 0.0f, c, static_cast<blasint>(n));
}

}  // namespace prorata
