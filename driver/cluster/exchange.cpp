#include "driver/cluster/exchange.h"

#include "codelets/apply_gradient.h"
#include "codelets/exchange.h"
#include "driver/cluster/owners.h"
#include "driver/cluster/starpu_mpi.h"
#include "models/layers.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace prorata {
namespace {

// Floats that travel as such, or in 16 bits.
struct Message {
  explicit Message(const ExchangeShape& shape)
      : args{shape},
        values(static_cast<std::size_t>(shape.count)),
        halves(shape.format == WireFormat::float32 ? 0 : values.count),
        handle(DataHandle::in_main_memory(values.data.get(), values.count)) {
    if (!halves.empty()) halves_handle = DataHandle::in_main_memory(halves.data(), halves.size());
  }

  // When they are there.
  void send(const OwnedBlock& block, int other, bool there, void (*done)(void*) = nullptr, void* argument = nullptr) {
    if (!halves.empty()) submit_task(make_task({&narrow, {handle.get(), halves_handle.get()}, &args, true}));
    StarpuMpi::send(on_the_wire(), other, block.number, there, done, argument);
  }
  void receive(const OwnedBlock& block, int other, bool there) {
    StarpuMpi::receive(on_the_wire(), other, block.number, there);
    if (!halves.empty()) submit_task(make_task({&widen, {halves_handle.get(), handle.get()}, &args, true}));
  }
  starpu_data_handle_t on_the_wire() const { return halves.empty() ? handle.get() : halves_handle.get(); }

  NarrowArgs args;
  AlignedFloats values;
  std::vector<std::uint16_t> halves;
  DataHandle handle, halves_handle;
};

// One layer, between its owner and one other rank.
struct Link {
  Link(const OwnedBlock& its_block, int other_rank, const ExchangeOptions& options)
      : block(its_block),
        other(other_rank),
        args{{static_cast<std::int32_t>(block.parameters->values.count), options.format},
             options.weight,
             options.elastic},
        add{{args.shape.count}, 1, 0},
        anchor(block.parameters->values.count),
        changes(args.shape),
        answer(args.shape),
        anchor_handle(DataHandle::in_main_memory(anchor.data.get(), anchor.count)) {}

  OwnedBlock block;
  int other;
  ExchangeArgs args;
  AccumulateGradientArgs add;  // something to the anchor
  AlignedFloats anchor;
  Message changes, answer;
  DataHandle anchor_handle;
  std::atomic<bool> in_flight{false};
  std::function<void()> done;
};

// What an owner itself learns of a layer, where that is weighed: a link to itself, without messages. The anchor follows
// the layer in all but that; of elastic averaging it is the centre.
struct OwnLearning {
  OwnLearning(const OwnedBlock& block, const ExchangeOptions& options)
      : link(block, block.owner, {options.weight, WireFormat::float32, options.elastic}) {}

  Link link;
  starpu_task* pack = nullptr;
};

// What goes with a round to one other rank that owns something, or comes from one: whether it is the last.
struct LastWord {
  LastWord(int other_rank, std::size_t blocks, bool is_sent)
      : other(other_rank), number(blocks), sent(is_sent), handle(DataHandle::in_main_memory(&last, 1)) {}

  const int other;
  const std::size_t number;  // in the place of a layer's
  const bool sent;           // or received
  std::int32_t last = 0;
  DataHandle handle;
  std::function<void()> done;
};

class StarpuMpiExchange : public Exchange {
 public:
  StarpuMpiExchange(const Job& job, Network& network, const ExchangeOptions& options)
      : rank_(job.rank()), elastic_(options.elastic) {
    const std::vector<OwnedBlock> blocks = share_out(network, job.ranks());
    std::set<std::pair<int, bool>> words;
    for (const OwnedBlock& block : blocks) {
      if (block.owner == rank_ && (options.weight != 1 || elastic_))
        own_.emplace(block.number, std::make_unique<OwnLearning>(block, options));
      for (int other = 0; other < job.ranks(); ++other)
        if (other != rank_ && (block.owner == rank_ || other == block.owner)) {
          links_.push_back(std::make_unique<Link>(block, other, options));
          words.emplace(other, other == block.owner);
        }
    }
    for (const auto& link : links_) link->done = [this] { finish_one(); };
    for (const auto& [other, sent] : words) {
      words_.push_back(std::make_unique<LastWord>(other, blocks.size(), sent));
      words_.back()->done = [this] { finish_one(); };
    }
    begin_anew();
  }

  void begin_round(bool last, std::function<void(bool)> done) override {
    done_ = std::move(done);
    const bool asks = !said_last_;
    said_last_ = last;
    std::vector<Link*> links;
    std::vector<LastWord*> words;
    for (const auto& link : links_)
      if (link->block.owner == rank_ ? !has_ended(link->other) : asks) links.push_back(link.get());
    for (const auto& word : words_)
      if (word->sent ? asks : !word->last) words.push_back(word.get());
    unfinished_ = links.size() + words.size() + 1;
    for (const auto& [number, own] : own_) own->pack = task(pack_changes, own->link, {own->link.changes.handle.get()});
    for (LastWord* word : words) exchange_word(*word);
    for (Link* link : links) {
      link->in_flight = true;
      link->block.owner == rank_ ? answer(*link) : ask(*link);
    }
    submit_own(links);
    finish_one();
  }

  std::vector<int> waits_for() const override {
    std::set<int> ranks;
    for (const auto& link : links_)
      if (link->in_flight) ranks.insert(link->other);
    return {ranks.begin(), ranks.end()};
  }

  void settle() override {
    if (!elastic_) return;
    for (const auto& [number, own] : own_) {
      const DataHandle& values = own->link.block.parameters->values_handle;
      starpu_data_acquire(own->link.anchor_handle.get(), STARPU_R);
      starpu_data_acquire(values.get(), STARPU_W);
      std::ranges::copy(own->link.anchor.span(), own->link.block.parameters->values.span().begin());
      starpu_data_release(values.get());
      starpu_data_release(own->link.anchor_handle.get());
    }
  }

  void begin_anew() override {
    said_last_ = false;
    for (const auto& word : words_) word->last = 0;
    for (const auto& link : links_) take_anchor(*link);
    for (const auto& [number, own] : own_) take_anchor(own->link);
  }

 private:
  static void take_anchor(Link& link) {
    const DataHandle& values = link.block.parameters->values_handle;
    starpu_data_acquire(values.get(), STARPU_R);
    starpu_data_acquire(link.anchor_handle.get(), STARPU_W);
    std::ranges::copy(link.block.parameters->values.span(), link.anchor.span().begin());
    starpu_data_release(link.anchor_handle.get());
    starpu_data_release(values.get());
  }

  static starpu_task* task(const Codelet& codelet, Link& link, std::vector<starpu_data_handle_t> messages) {
    messages.insert(messages.begin(), {link.block.parameters->values_handle.get(), link.anchor_handle.get()});
    return make_task({&codelet, std::move(messages), &link.args, true});
  }

  void answer(Link& link) {
    link.changes.receive(link.block, link.other, true);
    starpu_task* const absorb = task(absorb_changes, link, {link.changes.handle.get(), link.answer.handle.get()});
    // What others have learnt moves the centre; where there is none, it is not to be weighed as the owner's.
    if (elastic_)
      absorb->handles[0] = own_.at(link.block.number)->link.anchor_handle.get();
    else if (const auto own = own_.find(link.block.number); own != own_.end())
      starpu_task_declare_deps_array(absorb, 1, &own->second->pack);
    submit_task(absorb);
    link.answer.send(link.block, link.other, false, on_done, &link);
  }

  static starpu_task* add_to_anchor(Link& link, const DataHandle& what) {
    return make_task({&accumulate_gradient, {link.anchor_handle.get(), what.get()}, &link.add, true});
  }

  void submit_own(const std::vector<Link*>& links) {
    for (const auto& [number, own] : own_) {
      submit_task(own->pack);
      submit_task(add_to_anchor(own->link, own->link.changes.handle));
    }
    for (const Link* link : links)
      if (const auto own = own_.find(link->block.number); own != own_.end() && !elastic_)
        submit_task(add_to_anchor(own->second->link, link->changes.handle));
  }

  void ask(Link& link) {
    submit_task(task(pack_changes, link, {link.changes.handle.get()}));
    link.changes.send(link.block, link.other, true);
    link.answer.receive(link.block, link.other, false);
    starpu_task* merge = elastic_ ? add_to_anchor(link, link.answer.handle)
                                  : task(merge_answer, link, {link.changes.handle.get(), link.answer.handle.get()});
    merge->callback_func = on_done;
    merge->callback_arg = &link;
    submit_task(merge);
  }

  static void on_done(void* argument) {
    auto& link = *static_cast<Link*>(argument);
    link.in_flight = false;
    link.done();
  }

  // Whether the other one has sent its last changes.
  bool has_ended(int other) const {
    return std::ranges::any_of(words_,
                               [other](const auto& word) { return word->other == other && !word->sent && word->last; });
  }

  void exchange_word(LastWord& word) {
    if (word.sent) {
      starpu_data_acquire(word.handle.get(), STARPU_W);
      word.last = said_last_;
      starpu_data_release(word.handle.get());
      StarpuMpi::send(word.handle.get(), word.other, word.number, true, on_word, &word);
    } else {
      StarpuMpi::receive(word.handle.get(), word.other, word.number, true, on_word, &word);
    }
  }
  static void on_word(void* argument) { static_cast<LastWord*>(argument)->done(); }

  void finish_one() {
    if (--unfinished_ != 0) return;
    const bool ended = said_last_ && std::ranges::all_of(words_, [](const auto& word) { return word->last != 0; });
    const auto done = std::move(done_);
    done(ended);
  }

  const int rank_;
  const bool elastic_;
  const StarpuMpi running_;
  std::vector<std::unique_ptr<Link>> links_;
  std::map<std::size_t, std::unique_ptr<OwnLearning>> own_;  // by number of the layer
  std::vector<std::unique_ptr<LastWord>> words_;
  bool said_last_ = false;
  std::atomic<std::size_t> unfinished_{0};
  std::function<void(bool)> done_;
};

}  // namespace

std::uint64_t bytes_sent() { return StarpuMpi::sent(); }

std::unique_ptr<Exchange> make_exchange(const Job& job, Network& network, const ExchangeOptions& options) {
  return std::make_unique<StarpuMpiExchange>(job, network, options);
}

}  // namespace prorata
