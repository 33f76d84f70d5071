// Random numbers that are a function of their place: the same wherever, and in whatever order, they are drawn.
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

// The last word of the counter where samples are augmented; where elements are dropped it is 0, until a run has 2^32
// mini-batches. So no two uses of a seed have a number in common.
enum { kPhiloxOfAugmentation = 1 };

KERNELS_END
