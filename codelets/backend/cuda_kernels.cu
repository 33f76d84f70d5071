// The kernels of CUDA devices: what nvcc makes of kernels.h, which tells it that they are prorata_cuda_NAME. C++ knows
// them by their stubs of these names: see dialect.h.
#include "codelets/kernels/kernels.h"
