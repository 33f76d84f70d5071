#include "driver/cluster/exchange.h"

#include "codelets/exchange.h"
#include "models/layers.h"

#include <starpu_mpi.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace prorata {
namespace {

// Of one communicator's requests: messages of a layer, there and back, and its values at an epoch's end.
enum class Message : starpu_mpi_tag_t { changes, answer, values };

starpu_mpi_tag_t tag(std::size_t block, Message message) {
  constexpr starpu_mpi_tag_t kMessages = 3;
  return static_cast<starpu_mpi_tag_t>(block) * kMessages + static_cast<starpu_mpi_tag_t>(message);
}

void check(int error, const char* what) {
  if (error != 0)
    throw std::runtime_error(std::string("StarPU-MPI refuses ") + what + " (" + std::to_string(error) + ")");
}

}  // namespace

std::vector<int> share_out(const std::vector<std::size_t>& bytes, int ranks) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::size_t> load(static_cast<std::size_t>(ranks), 0);
  std::vector<int> owners(bytes.size());
  for (std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += bytes[i];
    owners[i] = static_cast<int>(least - load.begin());
  }
  return owners;
}

struct Exchange::Link {
  Link(const ParameterBlock& block, int other_rank)
      : other(other_rank),
        anchor(block.values.count),
        changes(block.values.count),
        answer(block.values.count),
        anchor_handle(DataHandle::in_main_memory(anchor.data.get(), anchor.count)),
        changes_handle(DataHandle::in_main_memory(changes.data.get(), changes.count)),
        answer_handle(DataHandle::in_main_memory(answer.data.get(), answer.count)) {
    std::copy(block.values.span().begin(), block.values.span().end(), anchor.span().begin());
  }

  int other;
  AlignedFloats anchor, changes, answer;
  DataHandle anchor_handle, changes_handle, answer_handle;
};

struct Exchange::Block {
  std::size_t number;
  ParameterBlock* parameters;
  int owner;
  ExchangeArgs args;
  std::vector<std::unique_ptr<Link>> links;  // the owner's: one to each other rank; others': one to the owner
};

Exchange::Exchange(Network& network, MPI_Comm ranks) : comm_(ranks) {
  starpu_mpi_comm_rank(comm_, &rank_);
  starpu_mpi_comm_size(comm_, &size_);
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (ParameterBlock* parameters = network.parameters(i)) {
      bytes.push_back(parameters->values.count * sizeof(float));
      const auto count = static_cast<std::int32_t>(parameters->values.count);
      blocks_.push_back(std::make_unique<Block>(Block{blocks_.size(), parameters, 0, {{count}}, {}}));
    }
  const std::vector<int> owners = share_out(bytes, size_);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    Block& block = *blocks_[b];
    block.owner = owners[b];
    for (int other = 0; other < size_; ++other)
      if (other != rank_ && (block.owner == rank_ || other == block.owner))
        block.links.push_back(std::make_unique<Link>(*block.parameters, other));
  }
}

Exchange::~Exchange() = default;

void Exchange::finish_one() {
  if (--unfinished_ != 0) return;
  const auto done = std::move(done_);
  done();
}

void Exchange::begin_round(std::function<void()> done) {
  done_ = std::move(done);
  std::size_t links = 0;
  for (const auto& block : blocks_) links += block->links.size();
  unfinished_ = links + 1;
  const auto finish = [](void* exchange) { static_cast<Exchange*>(exchange)->finish_one(); };
  for (const auto& block : blocks_)
    for (const auto& link : block->links) {
      const starpu_data_handle_t params = block->parameters->values_handle.get(), anchor = link->anchor_handle.get(),
                                 changes = link->changes_handle.get(), answer = link->answer_handle.get();
      const auto task = [&](const Codelet& codelet, std::vector<starpu_data_handle_t> buffers) {
        return make_task({&codelet, std::move(buffers), &block->args, true});
      };
      const starpu_mpi_tag_t there = tag(block->number, Message::changes), back = tag(block->number, Message::answer);
      if (block->owner == rank_) {
        check(starpu_mpi_irecv_detached(changes, link->other, there, comm_, nullptr, nullptr), "to receive changes");
        submit_task(task(absorb_changes, {params, anchor, changes, answer}));
        check(starpu_mpi_isend_detached(answer, link->other, back, comm_, finish, this), "to send an answer");
      } else {
        submit_task(task(pack_changes, {params, anchor, changes}));
        check(starpu_mpi_isend_detached(changes, link->other, there, comm_, nullptr, nullptr), "to send changes");
        check(starpu_mpi_irecv_detached(answer, link->other, back, comm_, nullptr, nullptr), "to receive an answer");
        starpu_task* merge = task(merge_answer, {params, anchor, changes, answer});
        merge->callback_func = finish;
        merge->callback_arg = this;
        submit_task(merge);
      }
    }
  finish_one();
}

void Exchange::synchronize() {
  for (const auto& block : blocks_) {
    const starpu_data_handle_t params = block->parameters->values_handle.get();
    const starpu_mpi_tag_t values = tag(block->number, Message::values);
    for (const auto& link : block->links) {
      if (block->owner == rank_)
        check(starpu_mpi_isend_detached(params, link->other, values, comm_, nullptr, nullptr), "to send values");
      else
        check(starpu_mpi_recv(params, link->other, values, comm_, MPI_STATUS_IGNORE), "to receive values");
    }
  }
  starpu_mpi_wait_for_all(comm_);
  for (const auto& block : blocks_)
    for (const auto& link : block->links) {
      starpu_data_acquire(link->anchor_handle.get(), STARPU_W);
      starpu_data_acquire(block->parameters->values_handle.get(), STARPU_R);
      std::ranges::copy(block->parameters->values.span(), link->anchor.span().begin());
      starpu_data_release(block->parameters->values_handle.get());
      starpu_data_release(link->anchor_handle.get());
    }
}

}  // namespace prorata
