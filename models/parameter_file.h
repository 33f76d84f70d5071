// Parameters in a file that PyTorch users can open: safetensors, with PyTorch's names, shapes and layout.
//
// A layer `conv1` has `conv1.weight` [out, in, kernel, kernel] and `conv1.bias` [out]; a dense layer `fc1` has
// `fc1.weight` [out, in], where the inputs of a flattened image are ordered channels first. A batch normalisation `bn1`
// has `bn1.weight` and `bn1.bias` [channels], and its running statistics as `bn1.running_mean` and `bn1.running_var`
// [channels] and `bn1.num_batches_tracked` []. All float32, but for that number, which is int64.
// Format: https://github.com/huggingface/safetensors (8 bytes little-endian header length, JSON header, data).
#pragma once

#include "models/network.h"

#include <filesystem>

namespace prorata {

// Writes under a temporary name in the same folder, syncs, renames: `file` is always whole. No task may be in flight.
// std::runtime_error names file and cause; the old file is then as it was.
void write_parameters(Network& network, const std::filesystem::path& file);

// Reads them all; nothing is changed unless the whole file is good. InputError names file, place and expectation.
void read_parameters(Network& network, const std::filesystem::path& file);

}  // namespace prorata
