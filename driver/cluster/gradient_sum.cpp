#include "driver/cluster/gradient_sum.h"

#include "codelets/apply_gradient.h"
#include "driver/cluster/owners.h"
#include "driver/cluster/starpu_mpi.h"
#include "models/layers.h"

#include <memory>
#include <vector>

namespace prorata {
namespace {

// What another rank has sent.
struct Inbox {
  Inbox(int from, std::size_t count)
      : rank(from), values(count), handle(DataHandle::in_main_memory(values.data.get(), count)) {}

  int rank;
  AlignedFloats values;
  DataHandle handle;
};

struct Block {
  int owner;
  AccumulateGradientArgs args;
  std::vector<Inbox> inboxes;  // the owner's, by rank
};

struct Sum {
  Sum(const Job& job, Network& network) : rank(job.rank()) {
    for (const OwnedBlock& block : share_out(network, job.ranks()))
      add(job, block.owner, block.parameters->values.count);
    add(job, 0, 1);
  }

  void add(const Job& job, int owner, std::size_t count) {
    Block& block = blocks.emplace_back(Block{owner, {{static_cast<std::int32_t>(count)}, 1, 0}, {}});
    for (int other = 0; other < job.ranks() && owner == rank; ++other)
      if (other != rank) block.inboxes.emplace_back(other, count);
  }

  void submit(std::size_t number, starpu_data_handle_t sum) {
    Block& block = blocks.at(number);
    if (block.owner != rank) {
      StarpuMpi::send(sum, block.owner, number, true);
      StarpuMpi::receive(sum, block.owner, number, false);
      return;
    }
    for (Inbox& inbox : block.inboxes) {
      StarpuMpi::receive(inbox.handle.get(), inbox.rank, number, true);
      submit_task(make_task({&accumulate_gradient, {sum, inbox.handle.get()}, &block.args, true}));
    }
    for (Inbox& inbox : block.inboxes) StarpuMpi::send(sum, inbox.rank, number, false);
  }

  const int rank;
  const StarpuMpi running;
  std::vector<Block> blocks;
};

}  // namespace

GradientSum make_gradient_sum(const Job& job, Network& network) {
  const auto sum = std::make_shared<Sum>(job, network);
  return [sum](std::size_t block, starpu_data_handle_t handle) { sum->submit(block, handle); };
}

}  // namespace prorata
