// Floats of 16 bits, as numbers of 32 whose upper half is 0: bfloat16, which is the upper half of a float, and float16
// (IEEE 754's binary16). Rounded to the nearest, ties to even. What is finite stays so: of float16 the largest is
// 65504.
#ifndef __OPENCL_VERSION__
#pragma once
#include "codelets/kernels/dialect.h"
#endif

KERNELS_BEGIN

// exchange.h's WireFormat.
enum { kFloat32 = 0, kBfloat16 = 1, kFloat16 = 2 };

INLINE u32 bfloat16_of(float v) {
  const u32 bits = AS_U32(v), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (bits >> 16) | 0x40u;  // not a number
  const u32 nearest = (magnitude + 0x7fffu + ((magnitude >> 16) & 1u)) >> 16;
  const u32 largest = magnitude < 0x7f800000u && nearest == 0x7f80u ? 0x7f7fu : nearest;
  return ((bits >> 16) & 0x8000u) | largest;
}

INLINE u32 float16_of(float v) {
  const u32 bits = AS_U32(v), magnitude = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude == 0x7f800000u) return sign | 0x7c00u;
  if (magnitude >= 0x477fe000u) return sign | 0x7bffu;
  // Below 2^-14 multiples of 2^-24, which float's own rounding finds.
  if (magnitude < 0x38800000u) return sign | (AS_U32(AS_FLOAT(magnitude) * 16777216.0f + 8388608.0f) & 0x7fffffu);
  return sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13);
}

INLINE float float_of_float16(u32 narrow_bits) {
  const u32 sign = (narrow_bits & 0x8000u) << 16, magnitude = narrow_bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return AS_FLOAT(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x400u) return AS_FLOAT(sign | AS_U32((float)magnitude * 5.9604644775390625e-8f));
  return AS_FLOAT(sign | ((magnitude << 13) + 0x38000000u));
}

INLINE u32 narrowed(float v, int format) { return format == kBfloat16 ? bfloat16_of(v) : float16_of(v); }
INLINE float widened(u32 narrow_bits, int format) {
  return format == kBfloat16 ? AS_FLOAT(narrow_bits << 16) : float_of_float16(narrow_bits);
}

// What is left of a number in that format.
INLINE float rounded_to(float v, int format) { return format == kFloat32 ? v : widened(narrowed(v, format), format); }

KERNELS_END
