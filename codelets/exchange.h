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
// Messages may travel in 16 bits. They are rounded where they are made, so that both sides reckon with what was sent,
// and narrow and widen lose nothing.
//
// `weight` is what a rank's own training counts for: at 1 what all have learnt is added up, and the parameters stay as
// they are when they are packed; at 1 / ranks it is averaged.
//
// Elastic averaging (EASGD, Zhang, Choromanska and LeCun, NIPS 2015, 1412.6651): `anchor` is what is known of a centre
// that nobody trains on, which `weight` of what a rank is away from it moves; the rank comes as much nearer, rather
// than all the way:
//     changes = weight * (params - anchor); params -= changes                   pack_changes
// At the owner the centre is in the place of params, and the copy's answer moves its anchor only.
//
// Shapes: params, anchor and messages [count] floats; halves [count] numbers of 16 bits.
#pragma once

#include "codelets/codelet.h"

namespace prorata {

// As kernels/half.h has them.
enum class WireFormat : std::int32_t { float32, bfloat16, float16 };

struct ExchangeShape {
  std::int32_t count;
  WireFormat format = WireFormat::float32;
};

struct ExchangeArgs {
  ExchangeShape shape;
  float weight = 1;      // of pack_changes
  bool elastic = false;  // of pack_changes, too
};

extern const Codelet pack_changes;    // params RW, anchor R, changes W
extern const Codelet absorb_changes;  // params RW, anchor RW, changes R, answer W
extern const Codelet merge_answer;    // params RW, anchor RW, changes R, answer R

// Of a format of 16 bits.
struct NarrowArgs {
  ExchangeShape shape;
};

extern const Codelet narrow;  // floats R, halves W
extern const Codelet widen;   // halves R, floats W

}  // namespace prorata
