// Element-wise and reduction kernels of the devices, once for all of them: see dialect.h.
//
// The CPU implementations do not use them: what vectorizes on a core reads otherwise (elementwise.h). In C++ they are
// what the tests hold against the reference, so that the logic of the CUDA build is proven where no GPU is.
#ifndef __OPENCL_VERSION__  // there all texts are one
#pragma once
#include "codelets/kernels/dialect.h"
#include "codelets/kernels/half.h"
#endif

KERNELS_BEGIN

// The larger of v and floor; not a number stays so, for a diverged network must be seen to be one.
INLINE float at_least(float v, float floor) { return v < floor ? floor : v; }

KERNEL(gather_bytes, int batch, int features, GLOBAL const u8* images, GLOBAL const u32* indices, float scale,
       GLOBAL float* x) {
  FOR_EACH(i, batch * features) {
    const int n = i / features;
    x[i] = (float)images[(LONG)indices[n] * features + (i - n * features)] * scale;
  }
}

KERNEL(gather_floats, int batch, int features, GLOBAL const float* images, GLOBAL const u32* indices, float scale,
       GLOBAL float* x) {
  FOR_EACH(i, batch * features) {
    const int n = i / features;
    x[i] = images[(LONG)indices[n] * features + (i - n * features)] * scale;
  }
}

KERNEL(gather_labels, int batch, GLOBAL const int* labels, GLOBAL const u32* indices, GLOBAL int* y) {
  FOR_EACH(n, batch) y[n] = labels[indices[n]];
}

// A place on a line of `size` whose ends are mirrors, with the last element seen twice; at most `size` beyond them.
INLINE int mirrored(int at, int size) {
  if (at < 0) return -1 - at;
  return at < size ? at : 2 * size - 1 - at;
}

KERNEL(gather_patches, int batch, int height, int width, int channels, int rows, int columns, GLOBAL const float* scene,
       GLOBAL const u32* places, GLOBAL const u32* indices, GLOBAL float* x) {
  FOR_EACH(i, batch * height * width * channels) {
    const int c = i % channels, w = i / channels % width, h = i / channels / width % height;
    const int place = (int)places[indices[i / channels / width / height]];
    const int row = mirrored(place / columns - height / 2 + h, rows);
    const int column = mirrored(place % columns - width / 2 + w, columns);
    x[i] = scene[((LONG)row * columns + column) * channels + c];
  }
}

// y[rows, columns] += the `columns` numbers of `params` from `bias` on; then max(0, y) where `relu`.
KERNEL(add_bias, int rows, int columns, GLOBAL const float* params, int bias, int relu, GLOBAL float* y) {
  FOR_EACH(i, rows * columns) {
    const float v = y[i] + params[bias + i % columns];
    y[i] = relu ? at_least(v, 0.0f) : v;
  }
}

// partial[parts, columns]: sums of every parts-th row of x[rows, columns]. Two steps, for few columns would leave most
// of a device idle: sum_parts adds them up.
KERNEL(sum_rows, int rows, int columns, int parts, GLOBAL const float* x, GLOBAL float* partial) {
  FOR_EACH(i, parts * columns) {
    float sum = 0.0f;
    for (int r = i / columns; r < rows; r += parts) sum += x[(LONG)r * columns + i % columns];
    partial[i] = sum;
  }
}

// out[to + c] = sum over the parts.
KERNEL(sum_parts, int columns, int parts, GLOBAL const float* partial, GLOBAL float* out, int to) {
  FOR_EACH(c, columns) {
    float sum = 0.0f;
    for (int p = 0; p < parts; ++p) sum += partial[p * columns + c];
    out[to + c] = sum;
  }
}

KERNEL(rectify, int count, GLOBAL const float* x, GLOBAL float* y) { FOR_EACH(i, count) y[i] = at_least(x[i], 0.0f); }

// dx may be dy.
KERNEL(rectify_backward, int count, GLOBAL const float* y, GLOBAL const float* dy, GLOBAL float* dx) {
  FOR_EACH(i, count) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

// y may be a or b.
KERNEL(add, int count, int relu, GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* y) {
  FOR_EACH(i, count) {
    const float v = a[i] + b[i];
    y[i] = relu ? at_least(v, 0.0f) : v;
  }
}

KERNEL(add_backward, int count, int relu, GLOBAL const float* y, GLOBAL const float* dy, GLOBAL float* da,
       GLOBAL float* db) {
  FOR_EACH(i, count) {
    const float v = relu && !(y[i] > 0.0f) ? 0.0f : dy[i];
    da[i] = v;
    db[i] = v;
  }
}

// columns[images * out_height * out_width, window * window * channels]: the windows of the images from `first` on, with
// zeros where they reach over the edge. Each number of FOR_EACH copies `run` elements, a divisor of window * channels:
// many where one thread does it all, for the places are then worked out once a run, and 1 where neighbours are to be
// written by neighbouring threads.
KERNEL(image_to_columns, int images, int first, int height, int width, int channels, int out_height, int out_width,
       int window, int stride, int padding, int run, GLOBAL const float* x, GLOBAL float* columns) {
  const int line = window * channels, runs = line / run;
  FOR_EACH(i, images * out_height * out_width * window * runs) {
    const int part = i % runs, kh = i / runs % window, pixel = i / runs / window;
    const int ow = pixel % out_width, oh = pixel / out_width % out_height, n = pixel / out_width / out_height;
    const int h = oh * stride - padding + kh, left = (ow * stride - padding) * channels;
    const LONG row = ((LONG)(first + n) * height + h) * width * channels;
    GLOBAL float* to = columns + (LONG)i * run;
    for (int k = 0; k < run; ++k) {
      const int at = left + part * run + k;
      const int inside = h >= 0 && h < height && at >= 0 && at < width * channels;
      to[k] = inside ? x[row + at] : 0.0f;
    }
  }
}

// The other way: each element of dx is the sum of its copies in `columns`.
KERNEL(columns_to_image, int images, int first, int height, int width, int channels, int out_height, int out_width,
       int window, int stride, int padding, GLOBAL const float* columns, GLOBAL float* dx) {
  FOR_EACH(i, images * height * width * channels) {
    const int c = i % channels, w = i / channels % width, h = i / channels / width % height;
    const int n = i / channels / width / height;
    float sum = 0.0f;
    for (int kh = 0; kh < window; ++kh) {
      const int top = h + padding - kh;
      if (top < 0 || top % stride != 0 || top / stride >= out_height) continue;
      for (int kw = 0; kw < window; ++kw) {
        const int left = w + padding - kw;
        if (left < 0 || left % stride != 0 || left / stride >= out_width) continue;
        const int pixel = (n * out_height + top / stride) * out_width + left / stride;
        sum += columns[((LONG)pixel * window * window + kh * window + kw) * channels + c];
      }
    }
    dx[(LONG)first * height * width * channels + i] = sum;
  }
}

// Of equal ones the first in reading order; not a number is larger than everything.
KERNEL(max_pool, int batch, int height, int width, int channels, int out_height, int out_width, int window, int stride,
       GLOBAL const float* x, GLOBAL float* y, GLOBAL u8* argmax) {
  FOR_EACH(i, batch * out_height * out_width * channels) {
    const int c = i % channels, ow = i / channels % out_width, oh = i / channels / out_width % out_height;
    const int n = i / channels / out_width / out_height;
    GLOBAL const float* corner = x + (((LONG)n * height + oh * stride) * width + ow * stride) * channels + c;
    float best = corner[0];
    int place = 0;
    for (int k = 1; k < window * window; ++k) {
      const float v = corner[((LONG)(k / window) * width + k % window) * channels];
      if (v > best || (v != v && best == best)) {
        best = v;
        place = k;
      }
    }
    y[i] = best;
    argmax[i] = (u8)place;
  }
}

KERNEL(max_pool_spread, int batch, int height, int width, int channels, int out_height, int out_width, int window,
       int stride, GLOBAL const u8* argmax, GLOBAL const float* dy, GLOBAL float* dx) {
  FOR_EACH(i, batch * height * width * channels) {
    const int c = i % channels, w = i / channels % width, h = i / channels / width % height;
    const int n = i / channels / width / height;
    float sum = 0.0f;
    for (int kh = 0; kh < window; ++kh) {
      const int top = h - kh;
      if (top < 0 || top % stride != 0 || top / stride >= out_height) continue;
      for (int kw = 0; kw < window; ++kw) {
        const int left = w - kw;
        if (left < 0 || left % stride != 0 || left / stride >= out_width) continue;
        const LONG from = (((LONG)n * out_height + top / stride) * out_width + left / stride) * channels + c;
        if (argmax[from] == kh * window + kw) sum += dy[from];
      }
    }
    dx[i] = sum;
  }
}

// `share`: what an element of a window counts for.
KERNEL(avg_pool, int batch, int height, int width, int channels, int out_height, int out_width, int window_height,
       int window_width, int stride, float share, GLOBAL const float* x, GLOBAL float* y) {
  FOR_EACH(i, batch * out_height * out_width * channels) {
    const int c = i % channels, ow = i / channels % out_width, oh = i / channels / out_width % out_height;
    const int n = i / channels / out_width / out_height;
    GLOBAL const float* corner = x + (((LONG)n * height + oh * stride) * width + ow * stride) * channels + c;
    float sum = 0.0f;
    for (int kh = 0; kh < window_height; ++kh)
      for (int kw = 0; kw < window_width; ++kw) sum += corner[((LONG)kh * width + kw) * channels];
    y[i] = sum * share;
  }
}

KERNEL(avg_pool_spread, int batch, int height, int width, int channels, int out_height, int out_width,
       int window_height, int window_width, int stride, float share, GLOBAL const float* dy, GLOBAL float* dx) {
  FOR_EACH(i, batch * height * width * channels) {
    const int c = i % channels, w = i / channels % width, h = i / channels / width % height;
    const int n = i / channels / width / height;
    float sum = 0.0f;
    for (int kh = 0; kh < window_height; ++kh) {
      const int top = h - kh;
      if (top < 0 || top % stride != 0 || top / stride >= out_height) continue;
      for (int kw = 0; kw < window_width; ++kw) {
        const int left = w - kw;
        if (left < 0 || left % stride != 0 || left / stride >= out_width) continue;
        sum += dy[(((LONG)n * out_height + top / stride) * out_width + left / stride) * channels + c];
      }
    }
    dx[i] = sum * share;
  }
}

// scores[2, batch]: the loss of each sample, and whether its largest logit is at its label.
KERNEL(softmax_rows, int batch, int classes, GLOBAL const float* logits, GLOBAL const int* labels,
       GLOBAL float* dlogits, GLOBAL float* scores) {
  const float weight = 1.0f / (float)batch;
  FOR_EACH(n, batch) {
    GLOBAL const float* row = logits + (LONG)n * classes;
    GLOBAL float* drow = dlogits + (LONG)n * classes;
    const int label = labels[n];
    int largest = 0;
    for (int c = 1; c < classes; ++c)
      if (row[c] > row[largest]) largest = c;
    float sum = 0.0f;
    for (int c = 0; c < classes; ++c) {
      const float e = exp(row[c] - row[largest]);
      drow[c] = e;
      sum += e;
    }
    scores[n] = log(sum) - (row[label] - row[largest]);
    scores[batch + n] = largest == label ? 1.0f : 0.0f;
    for (int c = 0; c < classes; ++c) drow[c] *= weight / sum;
    drow[label] -= weight;
  }
}

// sums[i] = the sum of scores[i, batch], compensated for rounding (Kahan).
KERNEL(sum_scores, int batch, GLOBAL const float* scores, GLOBAL float* sums) {
  FOR_EACH(i, 2) {
    float sum = 0.0f, lost = 0.0f;
    for (int n = 0; n < batch; ++n) {
      const float term = scores[i * batch + n] - lost;
      const float next = sum + term;
      lost = (next - sum) - term;
      sum = next;
    }
    sums[i] = sum;
  }
}

KERNEL(copy, int count, GLOBAL const float* from, GLOBAL float* to) { FOR_EACH(i, count) to[i] = from[i]; }

// A gradient as it would be on the parameter of now rather than on the snapshot's: apply_gradient.h. Of every
// optimizer, on every kind of worker.
INLINE float compensated(float gradient, float compensation, float param, float snapshot) {
  return gradient + compensation * gradient * gradient * (param - snapshot);
}

// Stochastic gradient descent. `compensation` != 0: delay compensated, by `snapshot`, else not read.
KERNEL(sgd, int count, float learning_rate, float momentum, float weight_decay, float weight, int nesterov,
       float compensation, GLOBAL float* params, GLOBAL float* momentum_buffer, GLOBAL const float* gradient,
       GLOBAL const float* snapshot) {
  FOR_EACH(i, count) {
    float g = gradient[i];
    if (compensation != 0.0f) g = compensated(g, compensation, params[i], snapshot[i]);
    const float d = weight * g + weight_decay * params[i];
    const float b = momentum * momentum_buffer[i] + d;
    momentum_buffer[i] = b;
    params[i] -= learning_rate * (nesterov ? d + momentum * b : b);
  }
}

// Adam, with the factors of apply_adam.cpp. `compensation` as above.
KERNEL(adam, int count, float keep, float decay, float weight, float beta1, float rest1, float beta2, float rest2,
       float step_size, float correction2, float epsilon, float compensation, GLOBAL float* params,
       GLOBAL float* exp_avg, GLOBAL float* exp_avg_sq, GLOBAL const float* gradient, GLOBAL const float* snapshot) {
  FOR_EACH(i, count) {
    float g = gradient[i];
    if (compensation != 0.0f) g = compensated(g, compensation, params[i], snapshot[i]);
    const float p = keep * params[i];
    const float d = weight * g + decay * p;
    const float m = beta1 * exp_avg[i] + rest1 * d;
    const float v = beta2 * exp_avg_sq[i] + rest2 * d * d;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    params[i] = p - step_size * m / (sqrt(v) / correction2 + epsilon);
  }
}

// partial[parts]: sums of the squares of every parts-th element.
KERNEL(square_parts, int count, int parts, GLOBAL const float* x, GLOBAL float* partial) {
  FOR_EACH(p, parts) {
    float sum = 0.0f;
    for (int i = p; i < count; i += parts) sum += x[i] * x[i];
    partial[p] = sum;
  }
}

// sum[0] = the sum of the parts, and of itself unless `first`.
KERNEL(add_parts, int parts, int first, GLOBAL const float* partial, GLOBAL float* sum) {
  FOR_EACH(i, 1) {
    float s = first ? 0.0f : sum[i];
    for (int p = 0; p < parts; ++p) s += partial[p];
    sum[i] = s;
  }
}

// apply_gradient.h's clip_gradient: not a number stays so.
INLINE float clip_factor(float most, float squares) {
  const float factor = most / (sqrt(squares) + 1e-6f);
  return factor > 1.0f ? 1.0f : factor;
}

KERNEL(clip, int count, float most, GLOBAL float* x, GLOBAL const float* squares) {
  FOR_EACH(i, count) x[i] *= clip_factor(most, squares[0]);
}

KERNEL(accumulate, int count, float weight, int first, GLOBAL const float* gradient, GLOBAL float* sum) {
  FOR_EACH(i, count) sum[i] = first ? weight * gradient[i] : sum[i] + weight * gradient[i];
}

// Of exchange.h.
KERNEL(pack, int count, int format, float weight, int elastic, GLOBAL float* params, GLOBAL const float* anchor,
       GLOBAL float* changes) {
  FOR_EACH(i, count) {
    const float learnt = weight * (params[i] - anchor[i]);
    changes[i] = rounded_to(learnt, format);
    if (elastic)
      params[i] -= changes[i];
    else if (weight != 1.0f)
      params[i] = anchor[i] + learnt;
  }
}

KERNEL(absorb, int count, int format, GLOBAL float* params, GLOBAL float* anchor, GLOBAL const float* changes,
       GLOBAL float* answer) {
  FOR_EACH(i, count) {
    params[i] += changes[i];
    answer[i] = rounded_to(params[i] - anchor[i], format);
    anchor[i] += answer[i];
  }
}

KERNEL(merge, int count, GLOBAL float* params, GLOBAL float* anchor, GLOBAL const float* changes,
       GLOBAL const float* answer) {
  FOR_EACH(i, count) {
    params[i] += answer[i] - changes[i];
    anchor[i] += answer[i];
  }
}

KERNEL(narrow, int count, int format, GLOBAL const float* x, GLOBAL u16* y) {
  FOR_EACH(i, count) y[i] = (u16)narrowed(x[i], format);
}

KERNEL(widen, int count, int format, GLOBAL const u16* x, GLOBAL float* y) {
  FOR_EACH(i, count) y[i] = widened(x[i], format);
}

KERNELS_END
