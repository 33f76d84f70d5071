#include "driver/cluster/job.h"

#include "models/errors.h"

#include <cstdlib>
#include <stdexcept>

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
  // StarPU-MPI's thread and workers both call.
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  comm_ = MPI_COMM_WORLD;
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &ranks_);
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
  MPI_Comm_rank(here, &rank_here_);
  MPI_Comm_size(here, &ranks_here_);
  MPI_Comm_free(&here);
  if (provided < MPI_THREAD_MULTIPLE && ranks_ > 1) {
    MPI_Finalize();
    throw InputError("this MPI library was built without MPI_THREAD_MULTIPLE, which several ranks need");
  }
}

Job::~Job() {
  if (comm_ != MPI_COMM_NULL) MPI_Finalize();
}

std::vector<std::string> Job::gather(const std::string& said) const {
  if (alone()) return {said};
  const auto n = static_cast<std::size_t>(ranks_);
  const int length = static_cast<int>(said.size());
  std::vector<int> lengths(n), offsets(n, 0);
  MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_);
  for (std::size_t r = 1; r < n; ++r) offsets[r] = offsets[r - 1] + lengths[r - 1];
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  MPI_Allgatherv(said.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, comm_);
  std::vector<std::string> result;
  for (std::size_t r = 0; r < n; ++r)
    result.push_back(all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  return result;
}

std::vector<double> Job::gather(double said) const {
  if (alone()) return {said};
  std::vector<double> result(static_cast<std::size_t>(ranks_));
  MPI_Allgather(&said, 1, MPI_DOUBLE, result.data(), 1, MPI_DOUBLE, comm_);
  return result;
}

void Job::together(const std::function<void()>& step) const {
  if (alone()) return step();
  // The first character tells what it is: nothing, of the user's making, or another failure.
  std::string said;
  try {
    step();
  } catch (const InputError& e) {
    said = std::string("i") + e.what();
  } catch (const std::exception& e) {
    said = std::string("e") + e.what();
  }
  const std::vector<std::string> all = gather(said);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    const std::string sentence = "rank " + std::to_string(r) + ": " + all[r].substr(1);
    if (all[r].front() == 'i') throw InputError(sentence);
    throw std::runtime_error(sentence);
  }
}

void Job::must_agree(const std::vector<std::pair<std::string, std::string>>& settings) const {
  for (const auto& [name, value] : settings) {
    const std::vector<std::string> all = gather(value);
    for (std::size_t r = 1; r < all.size(); ++r)
      if (all[r] != all[0])
        throw InputError("all ranks are to be started alike, but rank " + std::to_string(r) + " has " + name + " '" +
                         all[r] + "', and rank 0 '" + all[0] + "'");
  }
}

}  // namespace prorata
