// main() of tests that mpirun starts: each rank runs all of them.
#include "tests/driver/cluster/main.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace prorata::test {
namespace {
const Job* the_job = nullptr;
}  // namespace
const Job& job() { return *the_job; }
}  // namespace prorata::test

int main(int argc, char** argv) {
  const prorata::Job job;
  prorata::test::the_job = &job;
  ::setenv("STARPU_SILENT", "1", 0);
  ::setenv("STARPU_WORKERS_NOBIND", "1", 0);
  ::setenv("STARPU_MPI_NOBIND", "1", 0);
  ::setenv("STARPU_PERF_MODEL_DIR", PRORATA_TEST_PERF_MODELS, 1);
  ::setenv("STARPU_NCUDA", "0", 1);
  ::setenv("STARPU_NOPENCL", "0", 1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
