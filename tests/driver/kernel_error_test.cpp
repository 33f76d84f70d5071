// What is said of a kernel that fails on a worker of StarPU's.
#include "codelets/codelet.h"
#include "models/data_handle.h"
#include "models/layers.h"
#include "tests/starpu_fixture.h"

#include <stdexcept>

namespace prorata::test {
namespace {

struct FailingArgs {
  struct Shape {
    std::int32_t count;
  } shape;
};

void fail(const FailingArgs&, float*) { throw std::runtime_error("what went wrong"); }

// Asks the device for a kernel that its program has not.
struct Failing {
  template <class Device>
  static void run(Device& d, const FailingArgs&, Out<Device> y) {
    static const kernels::Kernel<float*> missing("no_such_kernel", nullptr, nullptr);
    d.launch(missing, 1, y);
  }
};

const Codelet failing{"failing", {STARPU_W}, footprint_of<FailingArgs>(), {{"cpu", cpu<fail>}}, on_devices<Failing>()};

class KernelErrors : public WithStarpu {
 protected:
  ~KernelErrors() override {
    ::unsetenv("STARPU_OPENCL_ON_CPUS");
    ::unsetenv("STARPU_NOPENCL");
  }

  // Of the codelet, run on a worker of this kind.
  static std::string error_on(starpu_worker_archtype kind, std::string* device) {
    const int worker = starpu_worker_get_by_type(kind, 0);
    char name[64];
    starpu_worker_get_name(worker, name, sizeof(name));
    *device = name;
    FailingArgs args{{1}};
    const DataHandle y = DataHandle::temporary(1, sizeof(float));
    starpu_task* task = make_task({&failing, {y.get()}, &args});
    task->execute_on_a_specific_worker = 1;
    task->workerid = static_cast<unsigned>(worker);
    submit_task(task);
    starpu_task_wait_for_all();
    try {
      rethrow_kernel_error();
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  }
};

TEST_F(KernelErrors, NameCodeletAndDevice) {
  start(1);
  std::string cpu;
  const std::string error = error_on(STARPU_CPU_WORKER, &cpu);
  EXPECT_EQ(error, "failing on " + cpu + ": what went wrong");
}

#if defined(PRORATA_OPENCL)

TEST_F(KernelErrors, HaveOpenClsCode) {
  ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
  ::setenv("STARPU_NOPENCL", "1", 1);
  start(1);
  if (starpu_opencl_worker_get_count() == 0) GTEST_SKIP() << "this machine has no OpenCL device";
  std::string device;
  const std::string error = error_on(STARPU_OPENCL_WORKER, &device);
  EXPECT_EQ(error, "failing on " + device + ": OpenCL: finding the kernel no_such_kernel failed with " +
                       std::to_string(CL_INVALID_KERNEL_NAME));
}

#endif

}  // namespace
}  // namespace prorata::test
