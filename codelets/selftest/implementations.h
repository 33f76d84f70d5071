// Every form that a codelet has, to be called without StarPU: its CPU implementations, and its operation on devices.
#pragma once

#include "codelets/selftest/harness.h"

#include <string>
#include <vector>

namespace prorata::selftest {

// All forms of a codelet, in this order: CPU implementations; `in_order`, the operation for devices on this thread;
// `opencl` and `cuda` where built in. What has no device here says so in `missing`.
std::vector<Implementation> implementations_of(const Codelet& codelet);

}  // namespace prorata::selftest
