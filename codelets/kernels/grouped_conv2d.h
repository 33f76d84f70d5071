// Kernels of convolution in groups: each element of the result by itself, for the products of a group are too small to
// be worth a matrix. Layouts as in codelets/conv2d.h; `params` begins with the weights.
#ifndef __OPENCL_VERSION__
#pragma once
#include "codelets/kernels/kernels.h"
#endif

KERNELS_BEGIN

KERNEL(grouped_conv2d, int batch, int height, int width, int in_channels, int out_height, int out_width,
       int out_channels, int window, int stride, int padding, int groups, GLOBAL const float* x,
       GLOBAL const float* params, GLOBAL float* y) {
  const int ins = in_channels / groups, outs = out_channels / groups;  // of a group
  FOR_EACH(i, batch * out_height * out_width * out_channels) {
    const int out = i % out_channels, pixel = i / out_channels;
    const int ow = pixel % out_width, oh = pixel / out_width % out_height, n = pixel / out_width / out_height;
    float sum = 0.0f;
    for (int kh = 0; kh < window; ++kh) {
      const int h = oh * stride - padding + kh;
      if (h < 0 || h >= height) continue;
      for (int kw = 0; kw < window; ++kw) {
        const int w = ow * stride - padding + kw;
        if (w < 0 || w >= width) continue;
        GLOBAL const float* from = x + (((LONG)n * height + h) * width + w) * in_channels + out / outs * ins;
        GLOBAL const float* weights = params + ((out * window + kh) * window + kw) * ins;
        for (int c = 0; c < ins; ++c) sum += from[c] * weights[c];
      }
    }
    y[i] = sum;
  }
}

KERNEL(grouped_conv2d_input_gradient, int batch, int height, int width, int in_channels, int out_height, int out_width,
       int out_channels, int window, int stride, int padding, int groups, GLOBAL const float* params,
       GLOBAL const float* dy, GLOBAL float* dx) {
  const int ins = in_channels / groups, outs = out_channels / groups;
  FOR_EACH(i, batch * height * width * in_channels) {
    const int in = i % in_channels, pixel = i / in_channels;
    const int w = pixel % width, h = pixel / width % height, n = pixel / width / height;
    const int first = in / ins * outs;  // of the channels that read this one
    float sum = 0.0f;
    for (int kh = 0; kh < window; ++kh) {
      const int top = h + padding - kh;
      if (top < 0 || top % stride != 0 || top / stride >= out_height) continue;
      for (int kw = 0; kw < window; ++kw) {
        const int left = w + padding - kw;
        if (left < 0 || left % stride != 0 || left / stride >= out_width) continue;
        GLOBAL const float* from =
            dy + (((LONG)n * out_height + top / stride) * out_width + left / stride) * out_channels;
        for (int out = first; out < first + outs; ++out)
          sum += from[out] * params[((out * window + kh) * window + kw) * ins + in % ins];
      }
    }
    dx[i] = sum;
  }
}

// partial[parts, weights]: what every parts-th pixel of dy adds; sum_parts adds them up. Neighbours have neighbouring
// channels of dy.
KERNEL(grouped_conv2d_weight_gradient, int batch, int height, int width, int in_channels, int out_height, int out_width,
       int out_channels, int window, int stride, int padding, int groups, int parts, GLOBAL const float* x,
       GLOBAL const float* dy, GLOBAL float* partial) {
  const int ins = in_channels / groups, outs = out_channels / groups;
  const int weights = out_channels * window * window * ins;
  FOR_EACH(i, parts * weights) {
    const int out = i % out_channels, c = i / out_channels % ins, place = i / out_channels / ins % (window * window);
    const int in = out / outs * ins + c, kh = place / window, kw = place % window;
    float sum = 0.0f;
    for (int pixel = i / weights; pixel < batch * out_height * out_width; pixel += parts) {
      const int h = pixel / out_width % out_height * stride - padding + kh,
                w = pixel % out_width * stride - padding + kw;
      if (h < 0 || h >= height || w < 0 || w >= width) continue;
      const int n = pixel / out_width / out_height;
      sum += dy[(LONG)pixel * out_channels + out] * x[(((LONG)n * height + h) * width + w) * in_channels + in];
    }
    partial[i / weights * weights + (out * window * window + place) * ins + c] = sum;
  }
}

KERNELS_END
