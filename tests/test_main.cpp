// main() of every test program: StarPU as the tests want it.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  // Nothing that a test measures may end up among the user's own performance models.
  ::setenv("STARPU_PERF_MODEL_DIR", PRORATA_TEST_PERF_MODELS, 1);
  ::setenv("STARPU_SILENT", "1", 0);
  // Tests ask for more workers than cores, and several may run at once.
  ::setenv("STARPU_WORKERS_NOBIND", "1", 0);
  // Workers are CPU workers unless a test asks for others; PoCL's device is one thread.
  ::setenv("STARPU_NCUDA", "0", 1);
  ::setenv("STARPU_NOPENCL", "0", 1);
  ::setenv("POCL_MAX_PTHREAD_COUNT", "1", 0);
  // hwloc unloads the library of its PCI plug-in, whose memory then looks lost to AddressSanitizer.
  ::setenv("HWLOC_COMPONENTS", "-pci", 0);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
