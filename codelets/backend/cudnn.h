// cuDNN on a CUDA device: convolutions of plain NHWC arrays, without bias and rectifier.
//
// What cuDNN wants to know of a shape is made when the shape first comes, and kept as long as the device. The algorithm
// is the one that cuDNN's heuristics put first of those that give the same bits each time, need no more than
// kConv2dWorkspace, and add up products as they are: transforms (FFT, Winograd) round in another way, and spread what
// is not a number over all that they transform at once. In float32 all factors keep their bits, unless allow_tf32() was
// called before the device was made.
//
// The functions are those of cuDNN 7's form, which cuDNN 9 still has.
//
// Errors: std::runtime_error, with what was tried and what cuDNN said.
// Threads: as of the device that it belongs to (cuda.h).
#pragma once

#include "codelets/conv2d.h"

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

struct cudnnContext;

namespace prorata {

class Cudnn {
 public:
  // On the current GPU; works in the device's stream.
  Cudnn(cudaStream_t stream, bool tf32);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  // Each puts its work into the stream of `d`, the device that this belongs to. Or it does nothing and returns false:
  // cuDNN has no such algorithm for the shape.
  bool forward(Cuda& d, const Conv2dShape& shape, const float* x, const float* weights, float* y);
  bool backward_data(Cuda& d, const Conv2dShape& shape, const float* weights, const float* dy, float* dx);
  bool backward_weights(Cuda& d, const Conv2dShape& shape, const float* x, const float* dy, float* dweights);

 private:
  class Convolution;
  Convolution& convolution(const Conv2dShape& shape);

  std::unique_ptr<cudnnContext, void (*)(cudnnContext*)> handle_;
  bool tf32_;
  // By shape, but for rectifier and bias.
  std::map<std::array<std::int32_t, 9>, std::unique_ptr<Convolution>> convolutions_;
};

}  // namespace prorata
