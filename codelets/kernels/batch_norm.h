// Kernels of batch normalisation, on x[rows, columns], a column a channel. What `statistics` and `params` hold, see
// codelets/batch_norm.h.
#ifndef __OPENCL_VERSION__
#pragma once
#include "codelets/kernels/kernels.h"
#endif

KERNELS_BEGIN

// Of every parts-th row from `first` on.
INLINE int rows_of_part(int rows, int first, int parts) { return (rows - first + parts - 1) / parts; }

// partial[2, parts, columns]: the mean of every parts-th row, and the sum of the squares of their deviations from it.
// Each thread reads its rows twice, for sums of squares alone would cancel; and it sums up what they are more than the
// first of them, for a mean that is far from 0 would leave few digits for them.
KERNEL(batch_moments, int rows, int columns, int parts, GLOBAL const float* x, GLOBAL float* partial) {
  FOR_EACH(i, parts * columns) {
    const int first = i / columns, column = i % columns;
    const float about = x[(LONG)first * columns + column];
    float sum = 0.0f, squares = 0.0f;
    for (int r = first; r < rows; r += parts) sum += x[(LONG)r * columns + column] - about;
    const float mean = about + sum / (float)rows_of_part(rows, first, parts);
    for (int r = first; r < rows; r += parts) {
      const float deviation = x[(LONG)r * columns + column] - mean;
      squares += deviation * deviation;
    }
    partial[i] = mean;
    partial[parts * columns + i] = squares;
  }
}

// Joins the parts (Chan, Golub and LeVeque, 1979).
KERNEL(batch_statistics, int rows, int columns, int parts, float epsilon, GLOBAL const float* partial,
       GLOBAL float* statistics) {
  FOR_EACH(c, columns) {
    float sum = 0.0f, squares = 0.0f;
    for (int p = 1; p < parts; ++p)
      sum += (float)rows_of_part(rows, p, parts) * (partial[p * columns + c] - partial[c]);
    const float mean = partial[c] + sum / (float)rows;
    for (int p = 0; p < parts; ++p) {
      const float distance = partial[p * columns + c] - mean;
      squares += partial[(parts + p) * columns + c] + (float)rows_of_part(rows, p, parts) * distance * distance;
    }
    statistics[c] = mean;
    statistics[columns + c] = 1.0f / sqrt(squares / (float)rows + epsilon);
    statistics[2 * columns + c] = squares / (float)(rows > 1 ? rows - 1 : 1);
  }
}

// From running mean and variance to the first two rows of statistics.
KERNEL(running_to_statistics, int columns, float epsilon, GLOBAL const float* running, GLOBAL float* statistics) {
  FOR_EACH(c, columns) {
    statistics[c] = running[c];
    statistics[columns + c] = 1.0f / sqrt(running[columns + c] + epsilon);
  }
}

KERNEL(batch_normalize, int rows, int columns, int relu, GLOBAL const float* x, GLOBAL const float* params,
       GLOBAL const float* statistics, GLOBAL float* y) {
  FOR_EACH(i, rows * columns) {
    const int c = i % columns;
    const float v = (x[i] - statistics[c]) * (params[c] * statistics[columns + c]) + params[columns + c];
    y[i] = relu ? at_least(v, 0.0f) : v;
  }
}

// partial[parts, 2, columns]: what every parts-th row adds to the gradients of gamma and beta.
KERNEL(batch_normalize_gradient, int rows, int columns, int parts, int relu, GLOBAL const float* x,
       GLOBAL const float* statistics, GLOBAL const float* y, GLOBAL const float* dy, GLOBAL float* partial) {
  FOR_EACH(i, parts * columns) {
    const int first = i / columns, column = i % columns;
    const float mean = statistics[column];
    float dgamma = 0.0f, dbeta = 0.0f;
    for (int r = first; r < rows; r += parts) {
      const LONG at = (LONG)r * columns + column;
      const float g = relu && !(y[at] > 0.0f) ? 0.0f : dy[at];
      dgamma += g * (x[at] - mean);
      dbeta += g;
    }
    partial[2 * first * columns + column] = dgamma * statistics[columns + column];
    partial[(2 * first + 1) * columns + column] = dbeta;
  }
}

KERNEL(batch_normalize_backward, int rows, int columns, int relu, GLOBAL const float* x, GLOBAL const float* params,
       GLOBAL const float* statistics, GLOBAL const float* y, GLOBAL const float* dy, GLOBAL const float* dparams,
       GLOBAL float* dx) {
  FOR_EACH(i, rows * columns) {
    const int c = i % columns;
    const float inverse = statistics[columns + c], normal = (x[i] - statistics[c]) * inverse;
    const float g = relu && !(y[i] > 0.0f) ? 0.0f : dy[i];
    dx[i] = params[c] * inverse * (g - (dparams[columns + c] + normal * dparams[c]) / (float)rows);
  }
}

KERNEL(update_running, int count, float momentum, GLOBAL const float* batch, GLOBAL float* running) {
  FOR_EACH(c, count) {
    running[c] = (1.0f - momentum) * running[c] + momentum * batch[c];
    running[count + c] = (1.0f - momentum) * running[count + c] + momentum * batch[2 * count + c];
  }
}

KERNELS_END
