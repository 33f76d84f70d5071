// The job: the ranks that train together, each a process that mpirun or srun has started.
//
// What ends one rank ends all of them, with one sentence that names the rank: checks that may fail on some rank alone
// are made together.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace prorata {

class Job {
 public:
  // MPI from start to end, where a launcher has started several ranks; else there is one rank, and no MPI. At most one
  // lives in a program's life.
  Job();
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool alone() const { return ranks_ == 1; }
  MPI_Comm comm() const { return comm_; }
  // Of the ranks on this node, how many there are, and which of them this is.
  int ranks_here() const { return ranks_here_; }
  int rank_here() const { return rank_here_; }

  // On all ranks at once. What each rank says, by rank.
  std::vector<std::string> gather(const std::string& said) const;
  std::vector<double> gather(double said) const;

  // On all ranks at once. Does `step` on each; where one throws an InputError, each throws one that names the first
  // such rank and what it said. Other exceptions likewise as std::runtime_error.
  void together(const std::function<void()>& step) const;

  // On all ranks at once. Each has the same names in the same order; InputError on all where a value is not that of
  // rank 0: which rank, which name, both values.
  void must_agree(const std::vector<std::pair<std::string, std::string>>& settings) const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, ranks_ = 1, rank_here_ = 0, ranks_here_ = 1;
};

}  // namespace prorata
