// Dropout: codelets/dropout.h.
#ifndef __OPENCL_VERSION__
#pragma once
#include "codelets/kernels/philox.h"
#endif

KERNELS_BEGIN

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
