// main() of tests that mpirun starts: each rank runs all of them.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  ::setenv("STARPU_SILENT", "1", 0);
  ::setenv("STARPU_WORKERS_NOBIND", "1", 0);
  ::setenv("STARPU_MPI_NOBIND", "1", 0);
  ::setenv("STARPU_PERF_MODEL_DIR", PRORATA_TEST_PERF_MODELS, 1);
  ::setenv("STARPU_NCUDA", "0", 1);
  ::setenv("STARPU_NOPENCL", "0", 1);
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
