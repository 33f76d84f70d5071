// Hyperspectral scenes: a cube [rows, columns, bands] and the ground truth [rows, columns], in MATLAB's files, as the
// Indian Pines, Pavia and Salinas scenes are published
// (https://www.ehu.eus/ccwintco/index.php/Hyperspectral_Remote_Sensing_Scenes).
#pragma once

#include "driver/data/dataset.h"

namespace prorata {

// The only array of three dimensions, and the only one of two that has its rows and columns, in the .mat files of
// `directory`. A sample is the window of the network's height and width around a pixel whose ground truth is a class,
// from 1 on; 0: unlabelled, left out. Of each class `preparation` says how many pixels are for training; of a class
// with less than twice as many, half of them. The others are for the test. Each band is brought to mean 0 and standard
// deviation 1 over the scene. InputError names file, place and expectation; numbers that are not finite are refused.
Dataset read_hyperspectral(const std::filesystem::path& directory, const NetworkSpec& network,
                           const Preparation& preparation);

}  // namespace prorata
