// Random numbers that are a function of their place, and dropout by them.
#ifndef __OPENCL_VERSION__
#pragma once
#include "codelets/kernels/dialect.h"
#endif

KERNELS_BEGIN

typedef struct {
  u32 word[4];
} Philox;

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011).
INLINE Philox philox(Philox counter, u32 key0, u32 key1) {
  for (int round = 0; round < 10; ++round) {
    const ULONG a = (ULONG)0xD2511F53u * counter.word[0], b = (ULONG)0xCD9E8D57u * counter.word[2];
    counter.word[0] = (u32)(b >> 32) ^ counter.word[1] ^ key0;
    counter.word[1] = (u32)b;
    counter.word[2] = (u32)(a >> 32) ^ counter.word[3] ^ key1;
    counter.word[3] = (u32)a;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Four elements to a number of FOR_EACH, which is the first word of the counter. An element whose word is below
// `dropped` is 0, others are `scale` times x; a product either way, so that not a number stays so.
KERNEL(dropout, int count, u32 key0, u32 key1, u32 counter1, u32 counter2, u32 counter3, u32 dropped, float scale,
       GLOBAL const float* x, GLOBAL float* y) {
  FOR_EACH(i, (count + 3) / 4) {
    Philox counter;
    counter.word[0] = (u32)i;
    counter.word[1] = counter1;
    counter.word[2] = counter2;
    counter.word[3] = counter3;
    const Philox random = philox(counter, key0, key1);
    for (int k = 0; k < 4 && 4 * i + k < count; ++k)
      y[4 * i + k] = x[4 * i + k] * (random.word[k] < dropped ? 0.0f : scale);
  }
}

KERNELS_END
