// The text of kernels/, as the devices' compilers get it: made by the build.
#pragma once

namespace prorata {

extern const char* const kOpenClProgram;

}  // namespace prorata
