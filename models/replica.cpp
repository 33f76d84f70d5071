#include "models/replica.h"

#include "codelets/backend/happens_before.h"
#include "models/running_statistics.h"

#include <algorithm>
#include <utility>

namespace prorata {

Replica::Replica(Network& network, BatchSizes sizes, Overlap overlap, std::function<void(Replica&)> done, Update update,
                 const Remedies& remedies, const Preprocessing& preprocessing)
    : network_(network),
      sizes_(sizes),
      options_{update, remedies, preprocessing, overlap == Overlap::possible},
      done_(std::move(done)),
      buffers_(network, sizes.micro_batch, options_.copies, sizes.batch > sizes.micro_batch,
               remedies.dana && update == Update::at_once) {
  for (std::size_t i = 0; i < network.depth(); ++i)
    blocks_.push_back({.block = network.parameters(i), .scale_by_staleness = remedies.scale_by_staleness});
  const auto of_training = [&](MicroBatch::Place place) {
    return MicroBatch::of_training(network, buffers_, place, options_);
  };
  const std::size_t most = micro_batches(static_cast<std::size_t>(sizes.batch));
  single_ = of_training({.first = true, .last = true});
  for (std::size_t n = 0; n + 1 < most; ++n) others_.push_back(of_training({.first = n == 0, .last = false}));
  if (most > 1) last_ = of_training({.first = false, .last = true});
  evaluation_ = MicroBatch::of_evaluation(network, buffers_, preprocessing);
}

Replica::~Replica() = default;

Replica::Bytes Replica::bytes(const Network& network, const Preprocessing& p, bool accumulates) {
  Bytes bytes = Activations::bytes(network);
  bytes.per_sample += sizeof(std::int32_t);  // its label
  if (p.normalize || p.augment())
    bytes.per_sample += static_cast<std::size_t>(network.spec().input.size()) * sizeof(float);
  if (accumulates) bytes.fixed += network.parameter_count() * sizeof(float);
  return bytes;
}

std::size_t Replica::micro_batches(std::size_t samples) const {
  const auto at_once = static_cast<std::size_t>(sizes_.micro_batch);
  return (samples + at_once - 1) / at_once;
}

// The n-th of so many.
MicroBatch& Replica::micro_batch_of(std::size_t n, std::size_t of) {
  if (of == 1) return *single_;
  return n + 1 < of ? *others_[n] : *last_;
}

void Replica::take_momentum(float part) {
  for_each_momentum([part](float& own, float& networks) {
    own = part * networks;
    networks -= own;
  });
}

void Replica::give_momentum() {
  for_each_momentum([](float& own, float& networks) { networks += std::exchange(own, 0.0f); });
}

void Replica::for_each_momentum(auto change) {
  for (std::size_t i = 0; i < buffers_.momenta.size(); ++i) {
    const OptimizerState* own = buffers_.momenta[i].get();
    if (!own) continue;
    const OptimizerState& networks = network_.parameters(i)->state.front();
    own->handle.fetch(STARPU_RW);
    networks.handle.fetch(STARPU_RW);
    for (std::size_t n = 0; n < own->values.count; ++n) change(own->values.data[n], networks.values.data[n]);
  }
}

// Of each micro-batch in turn, which are returned.
std::vector<MicroBatch*> Replica::make_training_tasks(const DataSource& data, std::span<const std::uint32_t> indices,
                                                      const UpdateStep& step, std::vector<starpu_task*>& tasks) {
  std::vector<MicroBatch*> group;
  const std::size_t count = micro_batches(indices.size()), at_once = static_cast<std::size_t>(sizes_.micro_batch);
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t first = n * at_once, samples = std::min(at_once, indices.size() - first);
    group.push_back(&micro_batch_of(n, count));
    group.back()->set(step, static_cast<double>(samples) / static_cast<double>(indices.size()));
    group.back()->make_tasks(data, indices.subspan(first, samples), step.first_sample + first, tasks);
  }
  return group;
}

void Replica::submit_training(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
                              const UpdateStep& step, int worker) {
  // All tasks are made before the first is submitted, since a task may have run and gone when the next one is made
  // to depend on it.
  thread_local std::vector<starpu_task*> tasks;
  tasks.clear();
  outputs_ = nullptr;
  submit(GroupKind::train, make_training_tasks(data, indices, step, tasks), tasks, indices, sequence, worker);
}

void Replica::submit_evaluation(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
                                float* outputs) {
  thread_local std::vector<starpu_task*> tasks;
  tasks.clear();
  outputs_ = outputs;
  evaluation_->make_tasks(data, indices, 0, tasks);
  submit(GroupKind::evaluate, {evaluation_.get()}, tasks, indices, sequence, -1);
}

TaskList::TaskList(std::vector<starpu_task*> tasks) : tasks_(std::move(tasks)) {
  for (starpu_task* task : tasks_) task->destroy = 0;
}

TaskList::~TaskList() {
  for (starpu_task* task : tasks_) starpu_task_destroy(task);
}

TaskList Replica::training_tasks(const DataSource& data, std::span<const std::uint32_t> indices) {
  std::vector<starpu_task*> tasks;
  make_training_tasks(data, indices, {}, tasks);
  return TaskList(std::move(tasks));
}

void Replica::price_training(const DataSource& data, std::span<const std::int32_t> batches) {
  for (std::int32_t batch : batches) {
    const std::vector<std::uint32_t> indices(static_cast<std::size_t>(batch));  // which samples makes no difference
    const TaskList list = training_tasks(data, indices);
    prorata_price(0, static_cast<std::uint32_t>(GroupKind::train), static_cast<std::uint32_t>(batch),
                  list.tasks().data(), static_cast<std::uint32_t>(list.tasks().size()));
  }
}

void Replica::submit(GroupKind kind, std::vector<MicroBatch*> group, std::vector<starpu_task*>& tasks,
                     std::span<const std::uint32_t> indices, std::uint64_t sequence, int worker) {
  const auto samples = static_cast<std::uint32_t>(indices.size());
  result_ = {};
  result_.samples = samples;
  result_.indices = indices;
  group_ = {};
  group_.sequence = sequence;
  group_.tasks = static_cast<std::uint32_t>(tasks.size());
  group_.samples = samples;
  group_.kind = static_cast<std::uint32_t>(kind);
  group_.for_worker_plus_1 = worker + 1;
  for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i].apply = group.back()->apply(i);
  in_flight_ = std::move(group);
  scored_ = 0;

  tags_.resize(tasks.size());
  int ends = 0;
  std::size_t first = 0;  // task of the micro-batch
  for (const MicroBatch* m : in_flight_) {
    const std::vector<MicroBatch::Role>& roles = m->roles();
    for (std::size_t t = 0; t < roles.size(); ++t) {
      tags_[first + t] = PRORATA_TAG(&group_, static_cast<std::uint32_t>(first + t));
      tasks[first + t]->sched_data = &tags_[first + t];
      give_role(tasks[first + t], roles[t], tasks.front(), tasks[first + m->last_backward()]);
      ends += roles[t].ends;
    }
    first += roles.size();
  }
  tasks.front()->prologue_callback_pop_func = on_begin;
  tasks.front()->prologue_callback_pop_arg = this;
  unfinished_ = ends;

  for (starpu_task* task : tasks) submit_task(task);
}

void Replica::give_role(starpu_task* task, const MicroBatch::Role& role, starpu_task* gather,
                        starpu_task* last_backward) {
  if (role.ends) {
    task->callback_func = on_last;
    task->callback_arg = this;
  }
  switch (role.kind) {
    case MicroBatch::Role::Kind::computes: break;
    case MicroBatch::Role::Kind::takes_snapshot:
      task->prologue_callback_pop_func = on_snapshot;
      task->prologue_callback_pop_arg = &blocks_[role.operation];
      starpu_task_declare_deps_array(task, 1, &gather);
      break;
    case MicroBatch::Role::Kind::applies_gradient:
      task->prologue_callback_pop_func = on_apply;
      task->prologue_callback_pop_arg = &blocks_[role.operation];
      break;
    case MicroBatch::Role::Kind::updates_statistics:
      task->prologue_callback_pop_func = on_statistics_update;
      task->prologue_callback_pop_arg = network_.statistics(role.operation);
      starpu_task_declare_deps_array(task, 1, &last_backward);
      break;
  }
}

void Replica::on_begin(void* arg) {
  auto* replica = static_cast<Replica*>(arg);
  MinibatchResult& result = replica->result_;
  if (!replica->options_.copies)
    for (BlockState& state : replica->blocks_)
      if (state.block) on_snapshot(&state);
  result.worker = starpu_worker_get_id();
  result.started = starpu_timing_now() * 1e-6;
}

// Both run when a worker takes the task, that is, when the task holds the block's handle already.
void Replica::on_snapshot(void* block_state) {
  auto* state = static_cast<BlockState*>(block_state);
  const HandleHeld held(state->block);
  state->version = state->block->version;
}

void Replica::on_apply(void* block_state) {
  auto* state = static_cast<BlockState*>(block_state);
  state->staleness = state->apply->begin() - state->version;
  if (state->scale_by_staleness && state->staleness > 1)
    state->apply->divide_weight(static_cast<float>(state->staleness));
}

void Replica::on_last(void* arg) {
  auto* replica = static_cast<Replica*>(arg);
  if (--replica->unfinished_ != 0) return;
  MinibatchResult& result = replica->result_;
  result.finished = starpu_timing_now() * 1e-6;
  if (replica->options_.update == Update::later)
    for (BlockState& state : replica->blocks_)
      if (state.block) state.staleness = state.block->version - state.version;
  for (const BlockState& block : replica->blocks_) result.staleness = std::max(result.staleness, block.staleness);
  replica->fetch_score();
}

// One micro-batch's after the other's. What its loss task wrote is still in its device's memory where that is another.
void Replica::fetch_score() {
  const bool elsewhere = starpu_worker_get_memory_node(static_cast<unsigned>(result_.worker)) != STARPU_MAIN_RAM;
  for (; scored_ < in_flight_.size(); ++scored_) {
    const MicroBatch& m = *in_flight_[scored_];
    if (elsewhere && starpu_data_acquire_cb(m.score_handle(), STARPU_R, on_score, this) == 0) return;
    add_score(m.score());
  }
  finish();
}

void Replica::add_score(const BatchScore& score) {
  result_.loss += score.loss;
  result_.correct += static_cast<std::uint32_t>(score.correct);
}

// When a score has come from a device.
void Replica::on_score(void* arg) {
  auto* replica = static_cast<Replica*>(arg);
  const MicroBatch& m = *replica->in_flight_[replica->scored_++];
  replica->add_score(m.score());
  starpu_data_release(m.score_handle());
  replica->fetch_score();
}

// When the outputs have come from wherever they were.
void Replica::on_outputs(void* arg) {
  auto* replica = static_cast<Replica*>(arg);
  const starpu_data_handle_t y = replica->outputs();
  const auto* values = static_cast<const float*>(starpu_data_handle_to_pointer(y, STARPU_MAIN_RAM));
  const std::size_t classes = static_cast<std::size_t>(replica->network_.spec().classes);
  std::copy_n(values, replica->result_.samples * classes, replica->outputs_);
  starpu_data_release(y);
  replica->done_(*replica);
}

void Replica::finish() {
  if (outputs_ && starpu_data_acquire_cb(outputs(), STARPU_R, on_outputs, this) == 0) return;
  done_(*this);
}

}  // namespace prorata
