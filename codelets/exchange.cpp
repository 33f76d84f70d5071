#include "codelets/exchange.h"

namespace prorata {
namespace {

void pack(const ExchangeArgs& args, const float* __restrict params, const float* __restrict anchor,
          float* __restrict changes) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) changes[i] = params[i] - anchor[i];
}

void absorb(const ExchangeArgs& args, float* __restrict params, float* __restrict anchor,
            const float* __restrict changes, float* __restrict answer) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) {
    params[i] += changes[i];
    answer[i] = params[i] - anchor[i];
    anchor[i] += answer[i];
  }
}

void merge(const ExchangeArgs& args, float* __restrict params, float* __restrict anchor,
           const float* __restrict changes, const float* __restrict answer) {
  for (std::int32_t i = 0; i < args.shape.count; ++i) {
    params[i] += answer[i] - changes[i];
    anchor[i] += answer[i];
  }
}

}  // namespace

const Codelet pack_changes{
    "pack_changes", {STARPU_R, STARPU_R, STARPU_W}, footprint_of<ExchangeArgs>(), {{"loops", cpu<pack>}}};
const Codelet absorb_changes{"absorb_changes",
                             {STARPU_RW, STARPU_RW, STARPU_R, STARPU_W},
                             footprint_of<ExchangeArgs>(),
                             {{"loops", cpu<absorb>}}};
const Codelet merge_answer{
    "merge_answer", {STARPU_RW, STARPU_RW, STARPU_R, STARPU_R}, footprint_of<ExchangeArgs>(), {{"loops", cpu<merge>}}};

}  // namespace prorata
