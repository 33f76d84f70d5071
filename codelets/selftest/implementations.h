// Every form that a codelet has, to be called without StarPU: its CPU implementations, and its operation on devices.
#pragma once

#include "codelets/selftest/harness.h"

#include <string>
#include <vector>

namespace prorata::selftest {

enum class Devices { first, all };  // of each kind

// All forms of a codelet, in this order: CPU implementations; `in_order`, the operation for devices on this thread;
// those of each OpenCL and each CUDA device, where built in. A kind that has no device here says so in `missing`, once
// a form.
std::vector<Implementation> implementations_of(const Codelet& codelet, Devices which = Devices::first);

}  // namespace prorata::selftest
