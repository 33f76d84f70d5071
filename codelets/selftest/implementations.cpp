#include "codelets/selftest/implementations.h"

namespace prorata::selftest {
namespace {

// With vector interfaces filled as StarPU would, from `fill(buffer)`.
template <class Run, class Fill>
void with_interfaces(std::vector<Buffer>& buffers, const Fill& fill, const Run& run) {
  std::vector<starpu_vector_interface> interfaces;
  for (Buffer& b : buffers) interfaces.push_back(fill(b));
  std::vector<void*> pointers;
  for (auto& i : interfaces) pointers.push_back(&i);
  run(pointers.data());
}

Implementation in_main_memory(const char* name, void (*run)(void* buffers[], void* args)) {
  return {name,
          [run](const void* args, std::vector<Buffer>& buffers) {
            with_interfaces(
                buffers, [](Buffer& b) { return b.interface(); },
                [&](void** pointers) { run(pointers, const_cast<void*>(args)); });
          },
          ""};
}

#if defined(PRORATA_OPENCL)

void require(cl_int status, const char* what) {
  if (status != CL_SUCCESS) throw std::runtime_error(std::string(what) + ": " + std::to_string(status));
}

// The first device of the machine, whatever it is, with a queue.
class TestOpenCl {
 public:
  TestOpenCl() {
    cl_uint platforms = 0;
    if (clGetPlatformIDs(0, nullptr, &platforms) != CL_SUCCESS) return;
    std::vector<cl_platform_id> ids(platforms);
    clGetPlatformIDs(platforms, ids.data(), nullptr);
    cl_device_id id = nullptr;
    for (cl_platform_id platform : ids)
      if (!id && clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, nullptr) != CL_SUCCESS) id = nullptr;
    if (!id) return;
    cl_int status = CL_SUCCESS;
    context_ = clCreateContext(nullptr, 1, &id, nullptr, nullptr, &status);
    require(status, "clCreateContext");
    queue_ = clCreateCommandQueue(context_, id, 0, &status);
    require(status, "clCreateCommandQueue");
    device_ = std::make_unique<OpenCl>(context_, id, queue_);
  }

  bool exists() const { return device_ != nullptr; }

  void call(const DeviceFunctions& functions, const void* args, std::vector<Buffer>& buffers) {
    struct OnDevice {
      cl_mem whole, used;
    };
    std::vector<OnDevice> memory;
    for (Buffer& b : buffers) {
      cl_int status = CL_SUCCESS;
      const cl_mem whole = clCreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, b.bytes().size(),
                                          b.bytes().data(), &status);
      require(status, "clCreateBuffer");
      const cl_buffer_region region{Buffer::kHead, b.bytes().size() - Buffer::kHead};
      const cl_mem used = clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
      require(status, "clCreateSubBuffer");
      memory.push_back({whole, used});
    }
    std::size_t next = 0;
    with_interfaces(
        buffers,
        [&](Buffer& b) {
          starpu_vector_interface vector = b.interface();
          vector.ptr = 0;  // there is none
          vector.dev_handle = reinterpret_cast<std::uintptr_t>(memory[next++].used);
          return vector;
        },
        [&](void** pointers) { functions.on_opencl(*device_, pointers, args); });
    device_->finish();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      auto& bytes = buffers[i].bytes();
      require(clEnqueueReadBuffer(queue_, memory[i].whole, CL_TRUE, 0, bytes.size(), bytes.data(), 0, nullptr, nullptr),
              "clEnqueueReadBuffer");
      clReleaseMemObject(memory[i].used);
      clReleaseMemObject(memory[i].whole);
    }
  }

 private:
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::unique_ptr<OpenCl> device_;
};

TestOpenCl& test_opencl() {
  static TestOpenCl device;
  return device;
}

#endif

#if defined(PRORATA_CUDA)

void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// The first GPU of the machine, with a stream. Both start with the first call: that takes long, and listing the tests
// does not need them.
class TestCuda {
 public:
  static std::string missing() {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return "";
    return std::string("this machine has no CUDA device") +
           (status == cudaSuccess ? "" : std::string(": ") + cudaGetErrorString(status));
  }

  void call(const DeviceFunctions& functions, const void* args, std::vector<Buffer>& buffers) {
    start();
    std::vector<std::unique_ptr<void, cudaError_t (*)(void*)>> memory;
    for (Buffer& b : buffers) {
      void* whole = nullptr;
      require(cudaMalloc(&whole, b.bytes().size()), "cudaMalloc");
      memory.emplace_back(whole, cudaFree);
      copy(whole, b.bytes().data(), b.bytes().size());
    }
    std::size_t next = 0;
    with_interfaces(
        buffers,
        [&](Buffer& b) {
          starpu_vector_interface vector = b.interface();
          vector.ptr = reinterpret_cast<std::uintptr_t>(memory[next++].get()) + Buffer::kHead;
          vector.dev_handle = vector.ptr;
          return vector;
        },
        [&](void** pointers) { functions.on_cuda(*device_, pointers, args); });
    for (std::size_t i = 0; i < buffers.size(); ++i)
      copy(buffers[i].bytes().data(), memory[i].get(), buffers[i].bytes().size());
    device_->finish();
  }

 private:
  void start() {
    if (device_) return;
    // As StarPU's, it does not wait for the default stream.
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    device_ = std::make_unique<Cuda>(stream_);
  }

  void copy(void* to, const void* from, std::size_t bytes) {
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Cuda> device_;
};

TestCuda& test_cuda() {
  static TestCuda device;
  return device;
}

#endif

}  // namespace

std::vector<Implementation> implementations_of(const Codelet& codelet) {
  std::vector<Implementation> all;
  for (const CpuImplementation& i : codelet.cpu()) all.push_back(in_main_memory(i.name, i.run));
  const DeviceFunctions& functions = codelet.devices();
  if (functions.in_order) all.push_back(in_main_memory("in_order", functions.in_order));
#if defined(PRORATA_OPENCL)
  all.push_back(
      {"opencl",
       [&functions](const void* args, std::vector<Buffer>& buffers) { test_opencl().call(functions, args, buffers); },
       test_opencl().exists() ? "" : "this machine has no OpenCL device"});
#endif
#if defined(PRORATA_CUDA)
  all.push_back(
      {"cuda",
       [&functions](const void* args, std::vector<Buffer>& buffers) { test_cuda().call(functions, args, buffers); },
       TestCuda::missing()});
#endif
  return all;
}

}  // namespace prorata::selftest
