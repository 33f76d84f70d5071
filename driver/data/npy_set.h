// A data set of four files of NumPy.
#pragma once

#include "driver/data/dataset.h"

namespace prorata {

// train_images.npy, train_labels.npy, test_images.npy and test_labels.npy in `directory`. Images are uint8 or float32,
// [n, height, width, channels], [n, height, width], or [n, features], which take the shape of the network's input if
// they are as many; labels are uint8, int32 or int64, [n], below the network's classes, or, where those are open, whose
// number is that of the largest label plus 1. The images stay in the files.
// InputError names file, offset and expectation; numbers that are not finite are refused.
Dataset read_npy_set(const std::filesystem::path& directory, const NetworkSpec& network);

}  // namespace prorata
