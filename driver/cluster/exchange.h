// The exchange of parameters among ranks, by StarPU-MPI: asynchronous training.
//
// Each layer with parameters has one rank that owns it; the others train on copies. In a round a rank sends to each
// owner what its own training has changed of the owner's layers, and gets back what else has changed there
// (codelets/exchange.h). All of a round is submitted at once, as tasks and detached requests on data handles, and
// training goes on meanwhile. When a round begins is each rank's own affair. An owner answers a rank's n-th round in
// its own n-th: ranks whose rounds come in the same rhythm hardly wait, and no request is posted for long (while one
// is, StarPU-MPI's thread polls). With each round goes a word whether it is the rank's last: from then on the rank only
// answers, until all others have said so. So a rank that was late has no more rounds to make up for at the end than
// one.
#pragma once

#include "codelets/exchange.h"
#include "driver/cluster/job.h"
#include "models/network.h"

#include <functional>
#include <memory>
#include <vector>

namespace prorata {

struct ExchangeOptions {
  float weight = 1;  // what a rank's own training counts for (codelets/exchange.h)
  WireFormat format = WireFormat::float32;
  bool elastic =
      false;  // elastic averaging; the weight is by how much a rank and the centre come nearer to one another
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Submits a round; from any thread, but one call at a time, and not before `done` of the one before, which is called
  // from a worker or StarPU-MPI's thread when this rank has its answers and has answered the others. `last`: this rank
  // trains no more; true from then on. `ended`: all have said so, and there is no further round before begin_anew().
  virtual void begin_round(bool last, std::function<void(bool ended)> done) = 0;

  // The ranks that the round in flight waits for. From any thread.
  virtual std::vector<int> waits_for() const = 0;

  // Between rounds, while nothing trains: what all have learnt becomes the owners' parameters, where it is not yet.
  virtual void settle() = 0;

  // The parameters of all ranks are the same, and no task uses them: from here on counts what is changed.
  virtual void begin_anew() = 0;
};

// There are several ranks; their parameters are the same, and no task uses them. The network must outlive it.
std::unique_ptr<Exchange> make_exchange(const Job& job, Network& network, const ExchangeOptions& options = {});

}  // namespace prorata
