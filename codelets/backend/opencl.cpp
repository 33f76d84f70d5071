#include "codelets/backend/opencl.h"

#include "codelets/backend/kernel_error.h"
#include "codelets/backend/opencl_program.h"

#include <clblast.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

namespace prorata {
namespace {

void check(cl_int status, const std::string& what) {
  if (status == CL_SUCCESS) return;
  const std::string hint = status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES
                               ? "; the device is out of memory: use a smaller --batch"
                               : "";
  throw std::runtime_error("OpenCL: " + what + " failed with " + std::to_string(status) + hint);
}

cl_program compile(cl_context context, cl_device_id device) {
  const char* text = kOpenClProgram;
  cl_int status = CL_SUCCESS;
  const cl_program program = clCreateProgramWithSource(context, 1, &text, nullptr, &status);
  check(status, "making a program");
  status = clBuildProgram(program, 1, &device, "-cl-std=CL1.2", nullptr, nullptr);
  if (status == CL_SUCCESS) return program;
  std::size_t length = 0;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &length);
  std::string log(length, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, length, log.data(), nullptr);
  clReleaseProgram(program);
  throw std::runtime_error("OpenCL: the device's compiler refused the kernels (" + std::to_string(status) + "):\n" +
                           log);
}

}  // namespace

OpenCl::Room::~Room() {
  if (memory_) clReleaseMemObject(memory_);
}

cl_mem OpenCl::Room::at_least(cl_context context, std::size_t bytes) {
  if (bytes <= bytes_) return memory_;
  cl_int status = CL_SUCCESS;
  const cl_mem larger = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &status);
  check(status, "allocating " + std::to_string(bytes) + " bytes");
  if (memory_) clReleaseMemObject(memory_);
  memory_ = larger;
  bytes_ = bytes;
  return memory_;
}

OpenCl::OpenCl(cl_context context, cl_device_id device, cl_command_queue queue)
    : context_(context), queue_(queue), program_(compile(context, device)) {
  cl_device_type type = 0;
  clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, nullptr);
  one_thread_ = type & CL_DEVICE_TYPE_CPU;
  clRetainContext(context_);
  clRetainCommandQueue(queue_);
}

OpenCl::~OpenCl() {
  clFinish(queue_);
  for (const auto& [name, kernel] : kernels_) clReleaseKernel(kernel);
  clReleaseProgram(program_);
  clReleaseCommandQueue(queue_);
  clReleaseContext(context_);
}

cl_kernel OpenCl::kernel_of(const char* name) {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return found->second;
  cl_int status = CL_SUCCESS;
  const cl_kernel kernel = clCreateKernel(program_, name, &status);
  check(status, std::string("finding the kernel ") + name);
  kernels_.emplace(name, kernel);
  return kernel;
}

void OpenCl::set_argument(cl_kernel kernel, cl_uint place, std::size_t bytes, const void* value) {
  check(clSetKernelArg(kernel, place, bytes, value), "passing argument " + std::to_string(place));
}

void OpenCl::enqueue(cl_kernel kernel, const char* name, std::size_t count) {
  constexpr std::size_t kGroup = 64, kMostGroups = 4096;  // more elements than that go round
  as_int(count);
  const std::size_t groups = std::clamp<std::size_t>((count + kGroup - 1) / kGroup, 1, kMostGroups);
  const std::size_t all = groups * kGroup;
  check(clEnqueueNDRangeKernel(queue_, kernel, 1, nullptr, &all, &kGroup, 0, nullptr, nullptr),
        std::string("the kernel ") + name);
}

void OpenCl::gemm(const GemmShape& s, Array<const float> a, std::size_t a_at, Array<const float> b, std::size_t b_at,
                  float beta, Array<float> c, std::size_t c_at) {
  const auto op = [](Transpose t) { return t == Transpose::yes ? clblast::Transpose::kYes : clblast::Transpose::kNo; };
  const auto m = static_cast<std::size_t>(s.m), n = static_cast<std::size_t>(s.n), k = static_cast<std::size_t>(s.k);
  const auto row_of_a = static_cast<std::size_t>(s.row_of_a()), row_of_b = static_cast<std::size_t>(s.row_of_b());
  std::size_t bytes = 0;
  auto status = clblast::GemmTempBufferSize<float>(clblast::Layout::kRowMajor, op(s.ta), op(s.tb), m, n, k, a_at,
                                                   row_of_a, b_at, row_of_b, c_at, n, &queue_, bytes);
  check(static_cast<cl_int>(status), "planning a matrix product (CLBlast)");
  status = clblast::Gemm<float>(clblast::Layout::kRowMajor, op(s.ta), op(s.tb), m, n, k, 1.0f, a.memory, a_at, row_of_a,
                                b.memory, b_at, row_of_b, beta, c.memory, c_at, n, &queue_, nullptr,
                                bytes > 0 ? gemm_workspace_.at_least(context_, bytes) : nullptr);
  check(static_cast<cl_int>(status), "a matrix product (CLBlast)");
}

OpenCl::Array<const std::uint32_t> OpenCl::upload(const std::uint32_t* numbers, std::size_t count) {
  const std::size_t bytes = count * sizeof(std::uint32_t);
  const cl_mem memory = uploads_.at_least(context_, bytes);
  check(clEnqueueWriteBuffer(queue_, memory, CL_FALSE, 0, bytes, numbers, 0, nullptr, nullptr), "a copy to the device");
  return {memory};
}

void OpenCl::finish() { check(clFinish(queue_), "the work of a task"); }

namespace {

// By StarPU's worker, each touched by that worker only.
std::array<std::unique_ptr<OpenCl>, STARPU_NMAXWORKERS> devices;

OpenCl& device_of_worker() {
  const int worker = starpu_worker_get_id_check();
  std::unique_ptr<OpenCl>& device = devices[static_cast<std::size_t>(worker)];
  if (!device) {
    const int number = starpu_worker_get_devid(worker);
    cl_context context;
    cl_device_id id;
    cl_command_queue queue;
    starpu_opencl_get_context(number, &context);
    starpu_opencl_get_device(number, &id);
    starpu_opencl_get_queue(number, &queue);
    device = std::make_unique<OpenCl>(context, id, queue);
  }
  return *device;
}

}  // namespace

void OpenCl::run_on_worker(void (*run)(OpenCl&, void* buffers[], const void* args), void* buffers[], void* args) {
  keep_kernel_error([&] { run(device_of_worker(), buffers, args); });
}

void init_opencl_workers() {
  starpu_execute_on_each_worker([](void*) { keep_kernel_error([] { device_of_worker(); }); }, nullptr, STARPU_OPENCL);
}

void shutdown_opencl_workers() {
  starpu_execute_on_each_worker([](void*) { devices[static_cast<std::size_t>(starpu_worker_get_id_check())].reset(); },
                                nullptr, STARPU_OPENCL);
}

}  // namespace prorata
