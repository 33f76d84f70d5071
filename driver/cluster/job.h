// The job: the ranks that train together, each a process that mpirun or srun has started.
//
// What fails on one rank ends all of them, with one sentence that names the rank. While the ranks set out they meet in
// gather() only: a rank that fails takes part in the next one with its error, and all throw it there (run()). Later
// they also wait for each other in other ways, so a rank that fails then ends the others at once (guard()).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace prorata {

// As a launcher's environment says, without MPI: how many ranks it has started; 1 where there is none.
int started_ranks();

// Of this process: bytes of parameters and gradients that it has sent to other ranks in training.
std::uint64_t bytes_sent();

class Job {
 public:
  // MPI from start to end, where a launcher has started several ranks; else there is one rank, and no MPI. At most one
  // lives in a program's life. InputError: several were started, and there is no MPI in this build, or one that
  // threads cannot use.
  Job();
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool alone() const { return ranks_ == 1; }
  bool first() const { return rank_ == 0; }

  // `work`, which returns an exit code. Where it throws before guard(), rank 0 throws that, and which rank it was; the
  // others, which shall say nothing more, return its exit code.
  int run(const std::function<int()>& work) const;
  // `work`, in which ranks wait for each other in whatever way: an exception ends all ranks, at once. `hint`: what the
  // user can do then.
  void guard(const std::function<void()>& work, const std::function<std::string()>& hint) const;
  // Ends all ranks at once, with an exit code.
  [[noreturn]] void abort(int code) const;

  // On all ranks at once, from their main threads. What each rank says, by rank.
  std::vector<std::string> gather(const std::string& said) const;
  // The same of numbers, each rank as many: their sums, each added in the order of ranks.
  std::vector<double> sum(const std::vector<double>& said) const;
  // The same of one number: what each rank says, by rank.
  std::vector<double> gather(double said) const;
  // The same: `values` become those of rank `from`.
  void broadcast(std::span<float> values, int from) const;

  // On all ranks at once. Each has the same names in the same order; InputError on all where a value is not that of
  // rank 0: which rank, which name, both values.
  void must_agree(const std::vector<std::pair<std::string, std::string>>& settings) const;

 private:
  std::vector<std::string> gather_bytes(const std::string& said) const;
  std::vector<std::string> opened(std::vector<std::string> all) const;

  int rank_ = 0, ranks_ = 1;
  bool started_ = false;         // MPI, by this job
  mutable bool agreed_ = false;  // on an error: all have it
};

}  // namespace prorata
