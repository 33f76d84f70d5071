#include "codelets/selftest/implementations.h"

#include <algorithm>
#include <memory>

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

Implementation in_main_memory(const char* name, const char* kind, void (*run)(void* buffers[], void* args)) {
  return {name,
          {kind, 0, {}},
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

// A device of the machine, whatever it is. Its context, queue and program are made with the first call: that takes
// long, and listing the tests does not need them.
class TestOpenCl {
 public:
  explicit TestOpenCl(cl_device_id id) : id_(id) {}

  // Every device of every platform, in OpenCL's order.
  static std::vector<std::unique_ptr<TestOpenCl>> find() {
    std::vector<std::unique_ptr<TestOpenCl>> found;
    cl_uint count = 0;
    if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return found;
    std::vector<cl_platform_id> platforms(count);
    clGetPlatformIDs(count, platforms.data(), nullptr);
    for (cl_platform_id platform : platforms) {
      if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
      std::vector<cl_device_id> ids(count);
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr);
      for (cl_device_id id : ids) found.push_back(std::make_unique<TestOpenCl>(id));
    }
    return found;
  }
  static std::string missing() { return "this machine has no OpenCL device"; }

  std::string name() const {
    std::size_t length = 0;
    clGetDeviceInfo(id_, CL_DEVICE_NAME, 0, nullptr, &length);
    std::string name(length, '\0');
    clGetDeviceInfo(id_, CL_DEVICE_NAME, length, name.data(), nullptr);
    return name.c_str();  // without the zero at its end
  }

  void call(const DeviceImplementation<OpenCl>& implementation, const void* args, std::vector<Buffer>& buffers) {
    start();
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
        [&](void** pointers) { implementation.run_on(*device_, pointers, args); });
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
  void start() {
    if (device_) return;
    cl_int status = CL_SUCCESS;
    context_ = clCreateContext(nullptr, 1, &id_, nullptr, nullptr, &status);
    require(status, "clCreateContext");
    queue_ = clCreateCommandQueue(context_, id_, 0, &status);
    require(status, "clCreateCommandQueue");
    device_ = std::make_unique<OpenCl>(context_, id_, queue_);
  }

  cl_device_id id_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::unique_ptr<OpenCl> device_;
};

#endif

#if defined(PRORATA_CUDA)

void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// A GPU of the machine, with a stream. Both start with the first call.
class TestCuda {
 public:
  explicit TestCuda(int number) : number_(number) {}

  static std::vector<std::unique_ptr<TestCuda>> find() {
    std::vector<std::unique_ptr<TestCuda>> found;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) return found;
    for (int number = 0; number < count; ++number) found.push_back(std::make_unique<TestCuda>(number));
    return found;
  }
  static std::string missing() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    return std::string("this machine has no CUDA device") +
           (status == cudaSuccess ? "" : std::string(": ") + cudaGetErrorString(status));
  }

  std::string name() const {
    cudaDeviceProp properties{};
    return cudaGetDeviceProperties(&properties, number_) == cudaSuccess ? properties.name : "";
  }

  void call(const DeviceImplementation<Cuda>& implementation, const void* args, std::vector<Buffer>& buffers) {
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
        [&](void** pointers) { implementation.run_on(*device_, pointers, args); });
    for (std::size_t i = 0; i < buffers.size(); ++i)
      copy(buffers[i].bytes().data(), memory[i].get(), buffers[i].bytes().size());
    device_->finish();
  }

 private:
  void start() {
    require(cudaSetDevice(number_), "cudaSetDevice");
    if (device_) return;
    // As StarPU's, it does not wait for the default stream.
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    device_ = std::make_unique<Cuda>(stream_);
  }

  void copy(void* to, const void* from, std::size_t bytes) {
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  }

  int number_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Cuda> device_;
};

#endif

#if defined(PRORATA_OPENCL) || defined(PRORATA_CUDA)

// The forms on the devices of a kind. What the devices hold is left to the end of the process: by then the driver may
// be gone that would take it back.
template <class Test, class Device>
void append(std::vector<Implementation>& all, const char* kind, Devices which,
            const std::vector<DeviceImplementation<Device>>& forms) {
  static const auto& devices = *new std::vector<std::unique_ptr<Test>>(Test::find());
  for (const DeviceImplementation<Device>& form : forms) {
    if (devices.empty()) all.push_back({form.name, {kind, 0, {}}, {}, Test::missing()});
    const std::size_t count = which == Devices::all ? devices.size() : std::min<std::size_t>(1, devices.size());
    for (std::size_t number = 0; number < count; ++number) {
      Test& device = *devices[number];
      all.push_back(
          {form.name,
           {kind, static_cast<int>(number), device.name()},
           [&form, &device](const void* args, std::vector<Buffer>& buffers) { device.call(form, args, buffers); },
           ""});
    }
  }
}

#endif

}  // namespace

std::vector<Implementation> implementations_of(const Codelet& codelet, [[maybe_unused]] Devices which) {
  std::vector<Implementation> all;
  for (const CpuImplementation& i : codelet.cpu()) all.push_back(in_main_memory(i.name, "cpu", i.run));
  for (const auto& i : codelet.devices().in_order) all.push_back(in_main_memory(i.name, "kernels", i.run));
#if defined(PRORATA_OPENCL)
  append<TestOpenCl>(all, "opencl", which, codelet.devices().opencl);
#endif
#if defined(PRORATA_CUDA)
  append<TestCuda>(all, "cuda", which, codelet.devices().cuda);
#endif
  return all;
}

}  // namespace prorata::selftest
