#include "driver/cluster/exchange.h"

#include "codelets/exchange.h"
#include "driver/cluster/owners.h"
#include "driver/cluster/starpu_mpi.h"
#include "models/layers.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <vector>

namespace prorata {
namespace {

// One layer, between its owner and one other rank.
struct Link {
  Link(const OwnedBlock& its_block, int other_rank)
      : block(its_block),
        other(other_rank),
        args{{static_cast<std::int32_t>(block.parameters->values.count)}},
        anchor(block.parameters->values.count),
        changes(anchor.count),
        answer(anchor.count),
        anchor_handle(DataHandle::in_main_memory(anchor.data.get(), anchor.count)),
        changes_handle(DataHandle::in_main_memory(changes.data.get(), changes.count)),
        answer_handle(DataHandle::in_main_memory(answer.data.get(), answer.count)) {}

  OwnedBlock block;
  int other;
  ExchangeArgs args;
  AlignedFloats anchor, changes, answer;
  DataHandle anchor_handle, changes_handle, answer_handle;
  std::atomic<bool> in_flight{false};
  std::function<void()> done;
};

class StarpuMpiExchange : public Exchange {
 public:
  StarpuMpiExchange(const Job& job, Network& network) : rank_(job.rank()) {
    for (const OwnedBlock& block : share_out(network, job.ranks()))
      for (int other = 0; other < job.ranks(); ++other)
        if (other != rank_ && (block.owner == rank_ || other == block.owner))
          links_.push_back(std::make_unique<Link>(block, other));
    for (const auto& link : links_) link->done = [this] { finish_one(); };
    begin_anew();
  }

  void begin_round(std::function<void()> done) override {
    done_ = std::move(done);
    unfinished_ = links_.size() + 1;
    for (const auto& link : links_) {
      link->in_flight = true;
      link->block.owner == rank_ ? answer(*link) : ask(*link);
    }
    finish_one();
  }

  std::vector<int> waits_for() const override {
    std::set<int> ranks;
    for (const auto& link : links_)
      if (link->in_flight) ranks.insert(link->other);
    return {ranks.begin(), ranks.end()};
  }

  void begin_anew() override {
    for (const auto& link : links_) {
      const DataHandle& values = link->block.parameters->values_handle;
      starpu_data_acquire(values.get(), STARPU_R);
      starpu_data_acquire(link->anchor_handle.get(), STARPU_W);
      std::ranges::copy(link->block.parameters->values.span(), link->anchor.span().begin());
      starpu_data_release(link->anchor_handle.get());
      starpu_data_release(values.get());
    }
  }

 private:
  static starpu_task* task(const Codelet& codelet, Link& link, std::vector<starpu_data_handle_t> messages) {
    messages.insert(messages.begin(), {link.block.parameters->values_handle.get(), link.anchor_handle.get()});
    return make_task({&codelet, std::move(messages), &link.args, true});
  }

  void answer(Link& link) {
    const starpu_data_handle_t changes = link.changes_handle.get(), answer = link.answer_handle.get();
    StarpuMpi::receive(changes, link.other, link.block.number, true);
    submit_task(task(absorb_changes, link, {changes, answer}));
    StarpuMpi::send(answer, link.other, link.block.number, false, on_done, &link);
  }

  void ask(Link& link) {
    const starpu_data_handle_t changes = link.changes_handle.get(), answer = link.answer_handle.get();
    submit_task(task(pack_changes, link, {changes}));
    StarpuMpi::send(changes, link.other, link.block.number, true);
    StarpuMpi::receive(answer, link.other, link.block.number, false);
    starpu_task* merge = task(merge_answer, link, {changes, answer});
    merge->callback_func = on_done;
    merge->callback_arg = &link;
    submit_task(merge);
  }

  static void on_done(void* argument) {
    auto& link = *static_cast<Link*>(argument);
    link.in_flight = false;
    link.done();
  }

  void finish_one() {
    if (--unfinished_ != 0) return;
    const auto done = std::move(done_);
    done();
  }

  const int rank_;
  const StarpuMpi running_;
  std::vector<std::unique_ptr<Link>> links_;
  std::atomic<std::size_t> unfinished_{0};
  std::function<void()> done_;
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(const Job& job, Network& network) {
  return std::make_unique<StarpuMpiExchange>(job, network);
}

}  // namespace prorata
