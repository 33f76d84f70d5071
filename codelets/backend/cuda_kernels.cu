// The kernels of CUDA devices: what nvcc makes of kernels/, which tells it that they are prorata_cuda_NAME. C++ knows
// them by their stubs of these names: see dialect.h.
#include "codelets/kernels/batch_norm.h"
#include "codelets/kernels/dropout.h"
#include "codelets/kernels/grouped_conv2d.h"
#include "codelets/kernels/kernels.h"
#include "codelets/kernels/preprocess.h"
