#include "models/replica.h"

#include "codelets/backend/happens_before.h"
#include "codelets/preprocess.h"
#include "codelets/snapshot.h"
#include "models/running_statistics.h"

#include <algorithm>
#include <stdexcept>

namespace prorata {

Replica::Replica(Network& network, std::int32_t batch, Overlap overlap, std::function<void(Replica&)> done,
                 Update update, const Remedies& remedies, const Preprocessing& preprocessing)
    : network_(network),
      batch_(batch),
      copies_(overlap == Overlap::possible),
      update_(update),
      remedies_(remedies),
      preprocessing_(preprocessing),
      done_(std::move(done)),
      activations_(network, batch, copies_),
      labels_(DataHandle::temporary(static_cast<std::size_t>(batch), sizeof(std::int32_t))),
      raw_(DataHandle::temporary(static_cast<std::size_t>(network.spec().input.size()) * batch, sizeof(float))),
      score_handle_(DataHandle::in_main_memory(&score_, 1)),
      squares_handle_(DataHandle::in_main_memory(&squares_, 1)) {
  for (std::size_t i = 0; i < network.depth(); ++i)
    blocks_.push_back({.block = network.parameters(i), .apply = {}, .scale_by_staleness = remedies.scale_by_staleness});
  plan_training();
  plan_evaluation();
}

Replica::~Replica() = default;

Replica::Bytes Replica::bytes(const Network& network, const Preprocessing& p) {
  Bytes bytes = Activations::bytes(network);
  bytes.per_sample += sizeof(std::int32_t);  // its label
  if (p.normalize || p.augment())
    bytes.per_sample += static_cast<std::size_t>(network.spec().input.size()) * sizeof(float);
  return bytes;
}

// From where, and what is drawn, is filled in at each submission.
void Replica::plan_gather(Group& group, const Preprocessing& p) {
  const bool preprocessed = p.normalize || p.augment();
  const ImageShape& input = network_.spec().input;
  const starpu_data_handle_t x = activations_.input();
  group.plan.add(gather_batch, {nullptr, nullptr, preprocessed ? raw_.get() : x, labels_.get()},
                 GatherBatchArgs{{batch_, static_cast<std::int32_t>(input.size())}, nullptr, 1});
  if (!preprocessed) return;
  const PreprocessShape shape{batch_,        input.height,      input.width, input.channels,
                              p.random_crop, p.horizontal_flip, p.cutout};
  group.preprocess = &group.plan.add(preprocess, {raw_.get(), nullptr, x}, PreprocessArgs{shape, nullptr, 0, 0});
}

void Replica::plan_loss(Group& group) {
  group.plan.add(softmax_cross_entropy,
                 {activations_.output(), labels_.get(), activations_.output_gradient(), score_handle_.get()},
                 SoftmaxCrossEntropyArgs{{batch_, network_.spec().classes}});
}

// On the worker that has the gradients, so that what travels home is clipped already.
void Replica::plan_clip(Group& g) {
  std::vector<BlockGradient> gradients;
  for (std::size_t i = network_.depth(); i-- > 0;)
    if (const ParameterBlock* block = network_.parameters(i))
      gradients.push_back({activations_.gradient(i), static_cast<std::int32_t>(block->values.count)});
  plan_clipping(g.plan, gradients, static_cast<float>(network_.optimizer().clip_norm), squares_handle_.get(), false);
}

// Without a snapshot nothing is ever stale, and there is nothing to compensate.
void Replica::plan_apply(Group& g, std::size_t i) {
  std::optional<ApplyTask::Compensation> compensation;
  if (copies_ && remedies_.compensation > 0) compensation = {remedies_.compensation, activations_.snapshot(i)};
  blocks_[i].apply.emplace(g.plan, network_.optimizer(), *network_.parameters(i), activations_.gradient(i),
                           compensation);
}

void Replica::plan_statistics(Group& g) {
  for (std::size_t i = 0; i < network_.depth(); ++i) {
    RunningStatistics* statistics = network_.statistics(i);
    if (!statistics) continue;
    plan_update(g.plan, *statistics, activations_.extra(i));
    g.statistics.resize(g.plan.tasks().size());
    g.statistics.back() = statistics;
  }
}

void Replica::plan_training() {
  Group& g = training_;
  g.kind = GroupKind::train;
  const auto mark = [&g](std::vector<BlockState*>& list, BlockState* state) {
    list.resize(g.plan.tasks().size());
    list.back() = state;
  };
  const std::size_t depth = network_.depth();

  plan_gather(g, preprocessing_);
  for (std::size_t i = 0; i < depth; ++i) {
    ParameterBlock* block = network_.parameters(i);
    if (!block || !copies_) continue;
    g.plan.add(snapshot, {block->values_handle.get(), activations_.snapshot(i)},
               SnapshotArgs{{static_cast<std::int32_t>(block->values.count)}});
    mark(g.snapshot_of, &blocks_[i]);
  }
  for (std::size_t i = 0; i < depth; ++i) network_.operation(i).plan_forward(g.plan, activations_.buffers(i, !copies_));
  plan_loss(g);
  const bool clips = update_ == Update::at_once && network_.optimizer().clip_norm > 0;
  const auto apply = [&](std::size_t i) {
    if (!network_.parameters(i) || update_ == Update::later) return;
    plan_apply(g, i);
    mark(g.apply_to, &blocks_[i]);
  };
  const std::size_t backward = g.plan.tasks().size();
  for (std::size_t i = depth; i-- > 0;) {
    if (!network_.needs_gradient(i)) continue;
    activations_.plan_sum(g.plan, i);
    network_.operation(i).plan_backward(g.plan, activations_.buffers(i, !copies_));
    g.last_backward = g.plan.tasks().size() - 1;
    if (!clips) apply(i);
  }
  if (clips) {
    plan_clip(g);
    for (std::size_t i = depth; i-- > 0;) apply(i);
  }
  if (update_ == Update::at_once) plan_statistics(g);
  const std::size_t count = g.plan.tasks().size();
  g.snapshot_of.resize(count);
  g.apply_to.resize(count);
  g.statistics.resize(count);
  // Every other task leads to an apply, so the group has ended when all applies and updates of statistics have; without
  // them, when all backward has.
  for (std::size_t t = 0; t < count; ++t)
    g.last.push_back(update_ == Update::later ? t >= backward : g.apply_to[t] || g.statistics[t]);
  g.tags.resize(count);
}

void Replica::plan_evaluation() {
  Group& g = evaluation_;
  g.kind = GroupKind::evaluate;
  plan_gather(g, {.normalize = preprocessing_.normalize});
  for (std::size_t i = 0; i < network_.depth(); ++i)
    network_.operation(i).plan_inference(g.plan, activations_.buffers(i, true));
  plan_loss(g);
  const std::size_t count = g.plan.tasks().size();
  g.snapshot_of.resize(count);
  g.apply_to.resize(count);
  g.statistics.resize(count);
  g.last.assign(count, false);
  g.last.back() = true;
  g.tags.resize(count);
}

void Replica::submit_training(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
                              const UpdateStep& step, int worker) {
  for (BlockState& state : blocks_)
    if (state.apply) state.apply->set(step);
  training_.plan.set_draw(network_.seed(), step.first_sample);
  outputs_ = nullptr;
  submit(training_, data, indices, sequence, worker);
}

void Replica::submit_evaluation(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
                                float* outputs) {
  outputs_ = outputs;
  submit(evaluation_, data, indices, sequence, -1);
}

TaskList::TaskList(std::vector<starpu_task*> tasks) : tasks_(std::move(tasks)) {
  for (starpu_task* task : tasks_) task->destroy = 0;
}

TaskList::~TaskList() {
  for (starpu_task* task : tasks_) starpu_task_destroy(task);
}

// The task that collects samples of this kind of data.
TaskPlan Replica::gather_from(const DataSource& data, std::span<const std::uint32_t> indices, starpu_data_handle_t to) {
  const auto batch = static_cast<std::int32_t>(indices.size());
  const ImageShape& input = network_.spec().input;
  if (data.places) {
    gather_patches_ = {{batch, input.height, input.width, input.channels}, indices.data(), data.rows, data.columns};
    return {&gather_patches, {data.images, data.places, data.labels, to, labels_.get()}, &gather_patches_};
  }
  gather_ = {{batch, static_cast<std::int32_t>(input.size())}, indices.data(), data.scale};
  return {data.floats ? &gather_floats : &gather_batch, {data.images, data.labels, to, labels_.get()}, &gather_};
}

// One task for each of the plan, with codelet, arguments and buffers.
void Replica::make_tasks(Group& g, const DataSource& data, std::span<const std::uint32_t> indices,
                         std::vector<starpu_task*>& tasks) {
  g.plan.set_batch(static_cast<std::int32_t>(indices.size()));
  tasks.push_back(make_task(gather_from(data, indices, g.plan.tasks().front().buffers[2])));
  for (const TaskPlan& planned : std::span(g.plan.tasks()).subspan(1)) tasks.push_back(make_task(planned));
  if (!g.preprocess) return;
  if (!data.normalization) throw std::logic_error("there is no normalization to preprocess samples with");
  g.preprocess->indices = indices.data();
  g.preprocess->seed = data.seed;
  g.preprocess->epoch = data.epoch;
  tasks[1]->handles[1] = data.normalization;
}

TaskList Replica::training_tasks(const DataSource& data, std::span<const std::uint32_t> indices) {
  std::vector<starpu_task*> tasks;
  make_tasks(training_, data, indices, tasks);
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

void Replica::submit(Group& g, const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t sequence,
                     int worker) {
  const auto samples = static_cast<std::uint32_t>(indices.size());
  const std::size_t count = g.plan.tasks().size();
  result_ = {};
  result_.samples = samples;
  result_.indices = indices;
  unfinished_ = static_cast<int>(std::count(g.last.begin(), g.last.end(), true));
  group_ = {};
  group_.sequence = sequence;
  group_.tasks = static_cast<std::uint32_t>(count);
  group_.samples = samples;
  group_.kind = static_cast<std::uint32_t>(g.kind);
  group_.for_worker_plus_1 = worker + 1;

  // All tasks are made before the first is submitted, since a task may have run and gone when the next one is made
  // to depend on it.
  thread_local std::vector<starpu_task*> tasks;
  tasks.clear();
  make_tasks(g, data, indices, tasks);
  for (std::size_t t = 0; t < count; ++t) {
    starpu_task* task = tasks[t];
    g.tags[t] = PRORATA_TAG(&group_, static_cast<std::uint32_t>(t));
    task->sched_data = &g.tags[t];
    if (g.last[t]) {
      task->callback_func = on_last;
      task->callback_arg = this;
    }
    if (BlockState* state = g.snapshot_of[t]) {
      task->prologue_callback_pop_func = on_snapshot;
      task->prologue_callback_pop_arg = state;
      starpu_task_declare_deps_array(task, 1, &tasks.front());
    } else if (BlockState* target = g.apply_to[t]) {
      task->prologue_callback_pop_func = on_apply;
      task->prologue_callback_pop_arg = target;
    } else if (RunningStatistics* statistics = g.statistics[t]) {
      task->prologue_callback_pop_func = on_statistics_update;
      task->prologue_callback_pop_arg = statistics;
      starpu_task_declare_deps_array(task, 1, &tasks[g.last_backward]);
    }
  }
  tasks.front()->prologue_callback_pop_func = on_begin;
  tasks.front()->prologue_callback_pop_arg = this;

  for (starpu_task* task : tasks) submit_task(task);
}

void Replica::on_begin(void* arg) {
  auto* replica = static_cast<Replica*>(arg);
  MinibatchResult& result = replica->result_;
  if (!replica->copies_)
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
  if (replica->update_ == Update::later)
    for (BlockState& state : replica->blocks_)
      if (state.block) state.staleness = state.block->version - state.version;
  for (const BlockState& block : replica->blocks_) result.staleness = std::max(result.staleness, block.staleness);
  // What the loss task wrote is still in its device's memory where that is another.
  if (starpu_worker_get_memory_node(static_cast<unsigned>(result.worker)) != STARPU_MAIN_RAM &&
      starpu_data_acquire_cb(replica->score_handle_.get(), STARPU_R, on_score, replica) == 0)
    return;
  replica->read_score();
  replica->finish();
}

// When the score has come from a device.
void Replica::on_score(void* arg) {
  auto* replica = static_cast<Replica*>(arg);
  replica->read_score();
  starpu_data_release(replica->score_handle_.get());
  replica->finish();
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

void Replica::read_score() {
  result_.loss = score_.loss;
  result_.correct = static_cast<std::uint32_t>(score_.correct);
}

}  // namespace prorata
