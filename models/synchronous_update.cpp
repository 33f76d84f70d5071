#include "models/synchronous_update.h"

#include "codelets/apply_gradient.h"
#include "models/running_statistics.h"

namespace prorata {

SynchronousUpdate::SynchronousUpdate(Network& network)
    : network_(network), optimizer_(network.optimizer()), squares_handle_(DataHandle::in_main_memory(&squares_, 1)) {
  for (std::size_t i = 0; i < network.depth(); ++i) {
    ParameterBlock* parameters = network.parameters(i);
    if (!parameters) continue;
    AlignedFloats sum(parameters->values.count);
    // Tasks are ordered by their submission on this handle, and that makes the order of the sum.
    DataHandle handle = DataHandle::in_main_memory(sum.data.get(), sum.count);
    blocks_.push_back(std::make_unique<Block>(Block{i, parameters, std::move(sum), std::move(handle), {}}));
  }
}

void SynchronousUpdate::plan_statistics(std::span<Replica* const> replicas) {
  statistics_.clear();
  for (std::size_t i = 0; i < network_.depth(); ++i) {
    RunningStatistics* statistics = network_.statistics(i);
    if (!statistics) continue;
    for (const Replica* replica : replicas) {
      plan_update(plan_, *statistics, replica->statistics(i));
      statistics_.push_back(statistics);
    }
  }
}

void SynchronousUpdate::submit(std::span<Replica* const> replicas, const UpdateStep& step, std::function<void()> done) {
  done_ = std::move(done);
  double samples = 0;
  for (const Replica* r : replicas) samples += r->result().samples;

  plan_ = {};
  std::vector<BlockGradient> sums;
  for (const auto& block : blocks_) {
    const ApplyGradientShape shape{static_cast<std::int32_t>(block->sum.count)};
    for (std::size_t r = 0; r < replicas.size(); ++r)
      plan_.add_at_home(accumulate_gradient, {block->sum_handle.get(), replicas[r]->gradient(block->operation)},
                        AccumulateGradientArgs{shape, static_cast<float>(replicas[r]->result().samples / samples),
                                               r == 0});
    sums.push_back({block->sum_handle.get(), shape.count});
  }
  if (optimizer_.clip_norm > 0)
    plan_clipping(plan_, sums, static_cast<float>(optimizer_.clip_norm), squares_handle_.get(), true);
  const std::size_t applies = plan_.tasks().size();
  for (const auto& block : blocks_) {
    block->apply.emplace(plan_, optimizer_, *block->parameters, block->sum_handle.get());
    block->apply->set(step);
  }
  plan_statistics(replicas);
  unfinished_ = blocks_.size() + statistics_.size();

  std::vector<starpu_task*> tasks;
  for (const TaskPlan& planned : plan_.tasks()) tasks.push_back(make_task(planned));
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    starpu_task* apply = tasks[applies + b];
    apply->prologue_callback_pop_func = on_apply;
    apply->prologue_callback_pop_arg = blocks_[b].get();
    ends_with(apply);
  }
  for (std::size_t s = 0; s < statistics_.size(); ++s) {
    starpu_task** const update = &tasks[applies + blocks_.size() + s];
    (*update)->prologue_callback_pop_func = on_statistics_update;
    (*update)->prologue_callback_pop_arg = statistics_[s];
    // Nothing else orders them.
    if (s > 0 && statistics_[s] == statistics_[s - 1]) starpu_task_declare_deps_array(*update, 1, update - 1);
    ends_with(*update);
  }
  for (starpu_task* task : tasks) submit_task(task);
}

void SynchronousUpdate::ends_with(starpu_task* task) {
  task->callback_func = on_ended;
  task->callback_arg = this;
}

// As the task holds the block's handle.
void SynchronousUpdate::on_apply(void* block) { static_cast<Block*>(block)->apply->begin(); }

void SynchronousUpdate::on_ended(void* update) {
  SynchronousUpdate& own = *static_cast<SynchronousUpdate*>(update);
  if (--own.unfinished_ != 0) return;
  const auto done = std::move(own.done_);  // it may submit the next update
  done();
}

}  // namespace prorata
