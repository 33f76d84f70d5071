// What a job needs of MPI.
#include "driver/cluster/job.h"
#include "models/errors.h"

#include <mpi.h>

#include <cstdlib>

namespace prorata {
namespace {

// What Open MPI, PMIx (srun --mpi=pmix) and PMI (srun --mpi=pmi2, MPICH's mpirun) set for each rank. MPI is not asked:
// a program that is started by itself would wait for daemons that it does not need.
bool started_by_a_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

}  // namespace

Job::Job() {
  if (!started_by_a_launcher()) return;
  // Open MPI: a thread that polls lets others have its core first. StarPU-MPI's polls for as long as a message is
  // awaited.
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  int provided = MPI_THREAD_SINGLE;  // StarPU-MPI's thread and ours both call
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  started_ = true;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  if (provided < MPI_THREAD_MULTIPLE && !alone()) {
    MPI_Finalize();
    throw InputError("this MPI library was built without MPI_THREAD_MULTIPLE, which several ranks need");
  }
}

Job::~Job() {
  if (started_) MPI_Finalize();
}

void Job::abort(int code) const {
  if (started_) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

std::vector<std::string> Job::gather_bytes(const std::string& said) const {
  const auto n = static_cast<std::size_t>(ranks_);
  const int length = static_cast<int>(said.size());
  std::vector<int> lengths(n), offsets(n, 0);
  MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
  for (std::size_t r = 1; r < n; ++r) offsets[r] = offsets[r - 1] + lengths[r - 1];
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  MPI_Allgatherv(said.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, MPI_COMM_WORLD);
  std::vector<std::string> result;
  for (std::size_t r = 0; r < n; ++r)
    result.push_back(all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  return result;
}

void Job::broadcast(std::span<float> values, int from) const {
  if (!alone()) MPI_Bcast(values.data(), static_cast<int>(values.size()), MPI_FLOAT, from, MPI_COMM_WORLD);
}

}  // namespace prorata
