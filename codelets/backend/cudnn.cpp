#include "codelets/backend/cudnn.h"

#include <cudnn.h>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace prorata {
namespace {

void check(cudnnStatus_t status, const char* what, const char* hint = "") {
  if (status == CUDNN_STATUS_SUCCESS) return;
  cudaGetLastError();  // or StarPU would take it for an error of its own, and abort
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) hint = "; use a smaller --batch";
  throw std::runtime_error(std::string("CUDA: ") + what + " (cuDNN) failed: " + cudnnGetErrorString(status) + hint);
}

cudnnContext* start(cudaStream_t stream) {
  cudnnHandle_t handle = nullptr;
  check(cudnnCreate(&handle), "starting",
        "; cuDNN must fit the driver and the CUDA toolkit; -DPRORATA_CUDNN=OFF builds without it");
  check(cudnnSetStream(handle, stream), "choosing a stream");
  return handle;
}

template <class T, cudnnStatus_t (*Create)(T*), cudnnStatus_t (*Destroy)(T)>
class Descriptor {
 public:
  Descriptor() { check(Create(&it_), "making a descriptor"); }
  ~Descriptor() { Destroy(it_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator T() const { return it_; }  // NOLINT(google-explicit-constructor): it is one

 private:
  T it_ = nullptr;
};

using Tensor = Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using Filter = Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using Windows =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

template <class Algorithm>
struct Choice {
  Algorithm algorithm;
  std::size_t workspace;  // bytes
};

bool adds_up_products(cudnnConvolutionFwdAlgo_t a) {
  return a == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM || a == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
}
bool adds_up_products(cudnnConvolutionBwdDataAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 || a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
}
bool adds_up_products(cudnnConvolutionBwdFilterAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 || a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
         a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
}

bool refused(cudnnStatus_t status) { return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED; }

// `rank(most, &count, results)` asks the heuristics, `measure(algorithm, &bytes)` the workspace of one.
template <class Result, class Rank, class Measure>
auto choose(int most, const Rank& rank, const Measure& measure) -> std::optional<Choice<decltype(Result::algo)>> {
  std::vector<Result> results(static_cast<std::size_t>(most));
  int count = 0;
  const cudnnStatus_t ranked = rank(most, &count, results.data());
  if (refused(ranked)) return std::nullopt;
  check(ranked, "choosing an algorithm");
  results.resize(static_cast<std::size_t>(count));
  for (const Result& r : results) {
    if (r.status != CUDNN_STATUS_SUCCESS || r.determinism != CUDNN_DETERMINISTIC || !adds_up_products(r.algo)) continue;
    std::size_t bytes = 0;
    const cudnnStatus_t measured = measure(r.algo, &bytes);
    if (refused(measured)) continue;
    check(measured, "asking for an algorithm's workspace");
    if (bytes <= kConv2dWorkspace) return {{r.algo, bytes}};
  }
  return std::nullopt;
}

constexpr float kOne = 1.0f, kZero = 0.0f;  // the result is overwritten

}  // namespace

// Of one shape. Which algorithm is asked when it is first wanted: a first layer has no backward data.
class Cudnn::Convolution {
 public:
  Convolution(const Conv2dShape& s, bool tf32) {
    constexpr auto kImage = CUDNN_TENSOR_NHWC;
    constexpr auto kFloat = CUDNN_DATA_FLOAT;
    check(cudnnSetTensor4dDescriptor(x_, kImage, kFloat, s.batch, s.in_channels, s.height, s.width),
          "describing the input");
    check(cudnnSetTensor4dDescriptor(y_, kImage, kFloat, s.batch, s.out_channels, s.out_height(), s.out_width()),
          "describing the output");
    check(cudnnSetFilter4dDescriptor(weights_, kFloat, kImage, s.out_channels, s.in_channels / s.groups, s.kernel,
                                     s.kernel),
          "describing the weights");
    check(cudnnSetConvolution2dDescriptor(windows_, s.padding, s.padding, s.stride, s.stride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, kFloat),
          "describing the windows");
    check(cudnnSetConvolutionGroupCount(windows_, s.groups), "describing the groups");
    check(cudnnSetConvolutionMathType(windows_, tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH), "choosing a precision");
  }

  bool forward(Cuda& d, cudnnHandle_t h, const float* x, const float* weights, float* y) {
    if (!forward_)
      forward_ = choose<cudnnConvolutionFwdAlgoPerf_t>(
          CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
          [&](int most, int* count, auto* results) {
            return cudnnGetConvolutionForwardAlgorithm_v7(h, x_, weights_, windows_, y_, most, count, results);
          },
          [&](auto algorithm, std::size_t* bytes) {
            return cudnnGetConvolutionForwardWorkspaceSize(h, x_, weights_, windows_, y_, algorithm, bytes);
          });
    return run(d, *forward_, [&](auto algorithm, void* room, std::size_t bytes) {
      check(cudnnConvolutionForward(h, &kOne, x_, x, weights_, weights, windows_, algorithm, room, bytes, &kZero, y_,
                                    y),
            "a convolution");
    });
  }

  bool backward_data(Cuda& d, cudnnHandle_t h, const float* weights, const float* dy, float* dx) {
    if (!data_)
      data_ = choose<cudnnConvolutionBwdDataAlgoPerf_t>(
          CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
          [&](int most, int* count, auto* results) {
            return cudnnGetConvolutionBackwardDataAlgorithm_v7(h, weights_, y_, windows_, x_, most, count, results);
          },
          [&](auto algorithm, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardDataWorkspaceSize(h, weights_, y_, windows_, x_, algorithm, bytes);
          });
    return run(d, *data_, [&](auto algorithm, void* room, std::size_t bytes) {
      check(cudnnConvolutionBackwardData(h, &kOne, weights_, weights, y_, dy, windows_, algorithm, room, bytes, &kZero,
                                         x_, dx),
            "a convolution's gradient for its input");
    });
  }

  bool backward_weights(Cuda& d, cudnnHandle_t h, const float* x, const float* dy, float* dweights) {
    if (!gradient_)
      gradient_ = choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
          CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT,
          [&](int most, int* count, auto* results) {
            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, x_, y_, windows_, weights_, most, count, results);
          },
          [&](auto algorithm, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardFilterWorkspaceSize(h, x_, y_, windows_, weights_, algorithm, bytes);
          });
    return run(d, *gradient_, [&](auto algorithm, void* room, std::size_t bytes) {
      check(cudnnConvolutionBackwardFilter(h, &kOne, x_, x, y_, dy, windows_, algorithm, room, bytes, &kZero, weights_,
                                           dweights),
            "a convolution's gradient for its weights");
    });
  }

 private:
  // Asked once: an inner nothing says that there is none.
  template <class Algorithm>
  using Asked = std::optional<std::optional<Choice<Algorithm>>>;

  template <class Algorithm, class Run>
  static bool run(Cuda& d, const std::optional<Choice<Algorithm>>& choice, const Run& run_algorithm) {
    if (!choice) return false;
    run_algorithm(choice->algorithm, d.workspace<std::byte>(choice->workspace), choice->workspace);
    return true;
  }

  Tensor x_, y_;
  Filter weights_;
  Windows windows_;
  Asked<cudnnConvolutionFwdAlgo_t> forward_;
  Asked<cudnnConvolutionBwdDataAlgo_t> data_;
  Asked<cudnnConvolutionBwdFilterAlgo_t> gradient_;
};

Cudnn::Cudnn(cudaStream_t stream, bool tf32)
    : handle_(start(stream), [](cudnnContext* handle) { cudnnDestroy(handle); }), tf32_(tf32) {}

Cudnn::~Cudnn() = default;

Cudnn::Convolution& Cudnn::convolution(const Conv2dShape& s) {
  auto& kept = convolutions_[{s.batch, s.height, s.width, s.in_channels, s.out_channels, s.kernel, s.stride, s.padding,
                              s.groups}];
  if (!kept) kept = std::make_unique<Convolution>(s, tf32_);
  return *kept;
}

bool Cudnn::forward(Cuda& d, const Conv2dShape& shape, const float* x, const float* weights, float* y) {
  return convolution(shape).forward(d, handle_.get(), x, weights, y);
}

bool Cudnn::backward_data(Cuda& d, const Conv2dShape& shape, const float* weights, const float* dy, float* dx) {
  return convolution(shape).backward_data(d, handle_.get(), weights, dy, dx);
}

bool Cudnn::backward_weights(Cuda& d, const Conv2dShape& shape, const float* x, const float* dy, float* dweights) {
  return convolution(shape).backward_weights(d, handle_.get(), x, dy, dweights);
}

}  // namespace prorata
