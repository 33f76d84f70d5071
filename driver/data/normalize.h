// Normalisation by what the training set is like.
#pragma once

#include "driver/data/dataset.h"

namespace prorata {

// Has tasks bring each channel to mean 0 and standard deviation 1 over the training set, and the test set by the same
// numbers. A channel that is constant has its mean taken off only. Reads all of the training set once.
void normalize(Dataset& data);

}  // namespace prorata
