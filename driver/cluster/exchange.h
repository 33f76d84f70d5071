// The exchange of parameters among ranks, by StarPU-MPI.
//
// Each layer with parameters has one rank that owns it; the others train on copies. In a round a rank sends to each
// owner what its own training has changed of the owner's layers, and gets back what else has changed there
// (codelets/exchange.h). All of a round is submitted at once, as tasks and detached requests on data handles, and
// training goes on meanwhile. Every rank has the same number of rounds in an epoch, so that the number of messages is
// known; when a round begins is each rank's own affair. An owner answers a round when it has begun that round itself:
// ranks whose rounds come in the same rhythm hardly wait, and no request is posted for long (while one is, StarPU-MPI's
// thread polls).
#pragma once

#include "models/network.h"

#include <mpi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace prorata {

// For each of `bytes`, the rank of `ranks` that owns it: so that the largest sum of a rank is small (the largest first,
// each to whoever has least).
std::vector<int> share_out(const std::vector<std::size_t>& bytes, int ranks);

class Exchange {
 public:
  // StarPU-MPI must be initialised on `ranks`. The parameters are the same on all ranks, and no task uses them.
  Exchange(Network& network, MPI_Comm ranks);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Submits a round; from any thread, callbacks too, but one call at a time, and not before `done` of the one before,
  // which is called from a worker or StarPU-MPI's thread when this rank has its answers and has answered the others.
  void begin_round(std::function<void()> done);

  // Makes the parameters of all ranks those of the owners, to the bit. On all ranks, while no task uses them.
  void synchronize();

 private:
  struct Link;   // one layer, between its owner and one other rank
  struct Block;  // one layer

  void finish_one();

  MPI_Comm comm_;
  int rank_ = 0, size_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::atomic<std::size_t> unfinished_{0};
  std::function<void()> done_;
};

}  // namespace prorata
