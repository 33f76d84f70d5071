#include "models/micro_batch.h"

#include "codelets/apply_gradient.h"
#include "codelets/preprocess.h"
#include "codelets/snapshot.h"
#include "models/errors.h"
#include "models/running_statistics.h"

#include <limits>
#include <stdexcept>
#include <string>

namespace prorata {
namespace {

// Kernels count elements by int32.
std::int32_t checked(const Network& network, std::int32_t batch) {
  const auto check = [&](std::int64_t of_sample, const std::string& what) {
    if (of_sample * batch <= std::numeric_limits<std::int32_t>::max()) return;
    throw InputError("a mini-batch of " + std::to_string(batch) + " samples would have " +
                     std::to_string(of_sample * batch) + " values " + what + " of " + network.spec().name +
                     ", and at most 2^31 - 1 can be counted; use a smaller --batch");
  };
  check(network.spec().input.size(), "in the input");
  for (std::size_t i = 0; i < network.depth(); ++i)
    check(network.operation(i).output().size(), "behind layer '" + network.operation(i).name() + "'");
  return batch;
}

}  // namespace

MicroBatchBuffers::MicroBatchBuffers(const Network& network, std::int32_t batch_, bool copies, bool accumulates,
                                     bool own_momentum)
    : batch(checked(network, batch_)),
      activations(network, batch, copies),
      labels(DataHandle::temporary(static_cast<std::size_t>(batch), sizeof(std::int32_t))),
      raw(DataHandle::temporary(static_cast<std::size_t>(network.spec().input.size()) * batch, sizeof(float))),
      squares_handle(DataHandle::in_main_memory(&squares, 1)) {
  for (std::size_t i = 0; accumulates && i < network.depth(); ++i) {
    const ParameterBlock* block = network.parameters(i);
    sums.push_back(block ? std::make_unique<Sum>(block->values.count) : nullptr);
  }
  for (std::size_t i = 0; own_momentum && i < network.depth(); ++i) {
    const ParameterBlock* block = network.parameters(i);
    momenta.push_back(block ? std::make_unique<OptimizerState>(block->state.front().name, block->values.count)
                            : nullptr);
  }
}

MicroBatch::MicroBatch(Network& network, MicroBatchBuffers& buffers)
    : network_(network), buffers_(buffers), score_handle_(DataHandle::in_main_memory(&score_, 1)) {}

std::unique_ptr<MicroBatch> MicroBatch::of_training(Network& network, MicroBatchBuffers& buffers, Place place,
                                                    const TrainingOptions& options) {
  std::unique_ptr<MicroBatch> m(new MicroBatch(network, buffers));
  m->plan_gather(options.preprocessing);
  for (std::size_t i = 0; i < network.depth(); ++i) {
    ParameterBlock* block = network.parameters(i);
    if (!block || !options.copies || !place.first) continue;
    m->plan_.add(snapshot, {block->values_handle.get(), buffers.activations.snapshot(i)},
                 SnapshotArgs{{static_cast<std::int32_t>(block->values.count)}});
    m->mark({Role::Kind::takes_snapshot, i});
  }
  for (std::size_t i = 0; i < network.depth(); ++i)
    network.operation(i).plan_forward(m->plan_, buffers.activations.buffers(i, !options.copies));
  m->plan_loss();
  m->plan_backward(place, options);
  m->roles_.resize(m->plan_.tasks().size());
  return m;
}

std::unique_ptr<MicroBatch> MicroBatch::of_evaluation(Network& network, MicroBatchBuffers& buffers,
                                                      const Preprocessing& preprocessing) {
  std::unique_ptr<MicroBatch> m(new MicroBatch(network, buffers));
  m->plan_gather({.normalize = preprocessing.normalize});
  for (std::size_t i = 0; i < network.depth(); ++i)
    network.operation(i).plan_inference(m->plan_, buffers.activations.buffers(i, true));
  m->plan_loss();
  m->mark({.ends = true});
  return m;
}

// The plan's last task.
void MicroBatch::mark(Role role) {
  roles_.resize(plan_.tasks().size());
  roles_.back() = role;
}

// From where, and what is drawn, is filled in at each submission.
void MicroBatch::plan_gather(const Preprocessing& p) {
  const bool preprocessed = p.normalize || p.augment();
  const ImageShape& input = network_.spec().input;
  const starpu_data_handle_t x = buffers_.activations.input(), raw = buffers_.raw.get();
  plan_.add(gather_batch, {nullptr, nullptr, preprocessed ? raw : x, buffers_.labels.get()},
            GatherBatchArgs{{buffers_.batch, static_cast<std::int32_t>(input.size())}, nullptr, 1});
  if (!preprocessed) return;
  const PreprocessShape shape{buffers_.batch, input.height,      input.width, input.channels,
                              p.random_crop,  p.horizontal_flip, p.cutout};
  preprocess_ = &plan_.add(preprocess, {raw, nullptr, x}, PreprocessArgs{shape, nullptr, 0, 0});
}

void MicroBatch::plan_loss() {
  const Activations& a = buffers_.activations;
  plan_.add(softmax_cross_entropy, {a.output(), buffers_.labels.get(), a.output_gradient(), score_handle_.get()},
            SoftmaxCrossEntropyArgs{{buffers_.batch, network_.spec().classes}});
}

void MicroBatch::plan_backward(Place place, const TrainingOptions& options) {
  const bool applies = place.last && options.update == Update::at_once;
  const bool clips = applies && network_.optimizer().clip_norm > 0;
  const std::size_t backward = plan_.tasks().size();
  applies_.resize(network_.depth());
  for (std::size_t i = network_.depth(); i-- > 0;) {
    if (!network_.needs_gradient(i)) continue;
    buffers_.activations.plan_sum(plan_, i);
    network_.operation(i).plan_backward(plan_, buffers_.activations.buffers(i, !options.copies));
    last_backward_ = plan_.tasks().size() - 1;
    if (!network_.parameters(i)) continue;
    if (!buffers_.sums.empty()) plan_sum(i, place.first);
    if (applies && !clips) plan_apply(i, options);
  }
  if (clips) {
    plan_clip();
    for (std::size_t i = network_.depth(); i-- > 0;)
      if (network_.parameters(i)) plan_apply(i, options);
  }
  if (options.update == Update::at_once) {
    plan_statistics();
  } else if (place.last) {
    roles_.resize(plan_.tasks().size());
    for (std::size_t t = backward; t < roles_.size(); ++t) roles_[t].ends = true;
  }
}

void MicroBatch::plan_sum(std::size_t i, bool first) {
  const auto count = static_cast<std::int32_t>(network_.parameters(i)->values.count);
  sums_.push_back(&plan_.add(accumulate_gradient, {buffers_.gradient(i), buffers_.activations.gradient(i)},
                             AccumulateGradientArgs{{count}, 1, first}));
}

// On the worker that has the gradients, so that what travels home is clipped already.
void MicroBatch::plan_clip() {
  std::vector<BlockGradient> gradients;
  for (std::size_t i = network_.depth(); i-- > 0;)
    if (const ParameterBlock* block = network_.parameters(i))
      gradients.push_back({buffers_.gradient(i), static_cast<std::int32_t>(block->values.count)});
  plan_clipping(plan_, gradients, static_cast<float>(network_.optimizer().clip_norm), buffers_.squares_handle.get(),
                false);
}

// Without a snapshot nothing is ever stale, and there is nothing to compensate.
void MicroBatch::plan_apply(std::size_t i, const TrainingOptions& options) {
  std::optional<ApplyTask::Compensation> compensation;
  if (options.copies && options.remedies.compensation > 0)
    compensation = {options.remedies.compensation, buffers_.activations.snapshot(i)};
  const OptimizerState* momentum = buffers_.momenta.empty() ? nullptr : buffers_.momenta[i].get();
  applies_[i].emplace(plan_, network_.optimizer(), *network_.parameters(i), buffers_.gradient(i), compensation,
                      momentum);
  mark({Role::Kind::applies_gradient, i, true});
}

void MicroBatch::plan_statistics() {
  for (std::size_t i = 0; i < network_.depth(); ++i) {
    RunningStatistics* statistics = network_.statistics(i);
    if (!statistics) continue;
    plan_update(plan_, *statistics, buffers_.activations.extra(i));
    mark({Role::Kind::updates_statistics, i, true});
  }
}

void MicroBatch::set(const UpdateStep& step, double fraction) {
  for (std::optional<ApplyTask>& apply : applies_)
    if (apply) apply->set(step);
  for (AccumulateGradientArgs* sum : sums_) sum->weight = static_cast<float>(fraction);
}

// The task that collects samples of this kind of data.
TaskPlan MicroBatch::gather_from(const DataSource& data, std::span<const std::uint32_t> indices) {
  const starpu_data_handle_t to = plan_.tasks().front().buffers[2], labels = buffers_.labels.get();
  const auto batch = static_cast<std::int32_t>(indices.size());
  const ImageShape& input = network_.spec().input;
  if (data.places) {
    gather_patches_ = {{batch, input.height, input.width, input.channels}, indices.data(), data.rows, data.columns};
    return {&gather_patches, {data.images, data.places, data.labels, to, labels}, &gather_patches_};
  }
  gather_ = {{batch, static_cast<std::int32_t>(input.size())}, indices.data(), data.scale};
  return {data.floats ? &gather_floats : &gather_batch, {data.images, data.labels, to, labels}, &gather_};
}

void MicroBatch::make_tasks(const DataSource& data, std::span<const std::uint32_t> indices, std::uint64_t first_sample,
                            std::vector<starpu_task*>& tasks) {
  plan_.set_batch(static_cast<std::int32_t>(indices.size()));
  plan_.set_draw(network_.seed(), first_sample);
  const std::size_t first = tasks.size();
  tasks.push_back(make_task(gather_from(data, indices)));
  for (const TaskPlan& planned : std::span(plan_.tasks()).subspan(1)) tasks.push_back(make_task(planned));
  if (!preprocess_) return;
  if (!data.normalization) throw std::logic_error("there is no normalization to preprocess samples with");
  preprocess_->indices = indices.data();
  preprocess_->seed = data.seed;
  preprocess_->epoch = data.epoch;
  tasks[first + 1]->handles[1] = data.normalization;
}

}  // namespace prorata
