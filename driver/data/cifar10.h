// CIFAR-10 in its binary version.
//
// Source: https://www.cs.toronto.edu/~kriz/cifar.html. A file is a row of records of 3073 bytes: the label, then 32 x
// 32 bytes of red, of green, of blue. They are read, not mapped: ours has the channels of a pixel side by side, and the
// whole set is 184 MB.
#pragma once

#include "driver/data/dataset.h"

namespace prorata {

// The files data_batch_1.bin to data_batch_5.bin and test_batch.bin in `directory`. InputError names file, offset and
// expectation.
Dataset read_cifar10(const std::filesystem::path& directory);

}  // namespace prorata
