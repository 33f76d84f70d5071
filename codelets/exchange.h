// What ranks tell each other of a layer's parameters: changes, never values.
//
// Two ranks that exchange a layer keep the same `anchor` of it, to the bit: what both know. One of them owns the layer,
// the other trains on a copy. An exchange is
//     copy:   changes = weight * (params - anchor); params = anchor + changes   pack_changes
//     owner:  params += changes; answer = params - anchor; anchor += answer    absorb_changes
//     copy:   params += answer - changes; anchor += answer                     merge_answer
// in this order on each of these; meanwhile both train on. So the copy has then what the owner had, and what itself has
// learnt since. Whatever a message loses by rounding stays in the difference of params and anchor, and goes with the
// next one.
//
// `weight` is what a rank's own training counts for: at 1 what all have learnt is added up, and the parameters stay as
// they are when they are packed; at 1 / ranks it is averaged.
//
// Shapes: params and anchor [count] floats; messages [count].
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct ExchangeShape {
  std::int32_t count;
};

struct ExchangeArgs {
  ExchangeShape shape;
  float weight = 1;  // of pack_changes
};

extern const Codelet pack_changes;    // params RW, anchor R, changes W
extern const Codelet absorb_changes;  // params RW, anchor RW, changes R, answer W
extern const Codelet merge_answer;    // params RW, anchor RW, changes R, answer R

}  // namespace prorata
