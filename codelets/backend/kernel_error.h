// Keeps what a kernel throws for rethrow_kernel_error(): StarPU's C code cannot carry an exception.
#pragma once

namespace prorata {

void keep_current_kernel_error();  // in a catch block

template <class Run>
void keep_kernel_error(const Run& run) {
  try {
    run();
  } catch (...) {
    keep_current_kernel_error();
  }
}

}  // namespace prorata
