// Preloaded into a program, this makes its OpenCL device fail in mid-run: so many kernels are launched as ever, and no
// more.
#define _GNU_SOURCE
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdatomic.h>

enum { LAUNCHES = 1000 };

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t* offset,
                              const size_t* global, const size_t* local, cl_uint events, const cl_event* wait_for,
                              cl_event* event) {
  static atomic_int launches;
  if (atomic_fetch_add(&launches, 1) >= LAUNCHES) return CL_DEVICE_NOT_AVAILABLE;
  cl_int (*launch)(cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint,
                   const cl_event*, cl_event*) = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
  return launch(queue, kernel, dimensions, offset, global, local, events, wait_for, event);
}
