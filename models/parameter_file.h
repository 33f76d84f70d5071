// Parameters in a file that PyTorch users can open: safetensors, with PyTorch's names, shapes and layout. The state of
// the optimizer in another.
//
// A layer `conv1` has `conv1.weight` [out, in, kernel, kernel] and `conv1.bias` [out]; a dense layer `fc1` has
// `fc1.weight` [out, in], where the inputs of a flattened image are ordered channels first. A batch normalisation `bn1`
// has `bn1.weight` and `bn1.bias` [channels], and its running statistics as `bn1.running_mean` and `bn1.running_var`
// [channels] and `bn1.num_batches_tracked` []. All float32, but for that number, which is int64. A state of the
// optimizer has the parameter's name, its own behind it, and the parameter's shape and layout:
// `conv1.weight.momentum_buffer`.
#pragma once

#include "models/network.h"

#include <filesystem>

namespace prorata {

// Write and sync; the caller makes sure that nobody takes a half-written file for a whole one. No task may be in
// flight. std::runtime_error names file and cause.
void write_parameters(const Network& network, const std::filesystem::path& file);
void write_optimizer_state(const Network& network, const std::filesystem::path& file);

// Read them all; nothing is changed unless the whole file is good. InputError names file, place and expectation.
void read_parameters(Network& network, const std::filesystem::path& file);
void read_optimizer_state(Network& network, const std::filesystem::path& file);

}  // namespace prorata
