#include "models/synchronous_update.h"

#include "codelets/apply_gradient.h"

namespace prorata {

SynchronousUpdate::SynchronousUpdate(Network& network)
    : optimizer_(network.optimizer()), squares_handle_(DataHandle::in_main_memory(&squares_, 1)) {
  for (std::size_t i = 0; i < network.depth(); ++i) {
    ParameterBlock* parameters = network.parameters(i);
    if (!parameters) continue;
    AlignedFloats sum(parameters->values.count);
    // Tasks are ordered by their submission on this handle, and that makes the order of the sum.
    DataHandle handle = DataHandle::in_main_memory(sum.data.get(), sum.count);
    blocks_.push_back(std::make_unique<Block>(Block{this, i, parameters, std::move(sum), std::move(handle), {}}));
  }
}

void SynchronousUpdate::submit(std::span<Replica* const> replicas, const UpdateStep& step, std::function<void()> done) {
  done_ = std::move(done);
  unfinished_ = blocks_.size();
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

  std::vector<starpu_task*> tasks;
  for (const TaskPlan& planned : plan_.tasks()) tasks.push_back(make_task(planned));
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    starpu_task* apply = tasks[applies + b];
    apply->prologue_callback_pop_func = on_apply;
    apply->prologue_callback_pop_arg = blocks_[b].get();
    apply->callback_func = on_applied;
    apply->callback_arg = blocks_[b].get();
  }
  for (starpu_task* task : tasks) submit_task(task);
}

// As the task holds the block's handle.
void SynchronousUpdate::on_apply(void* block) { static_cast<Block*>(block)->apply->begin(); }

void SynchronousUpdate::on_applied(void* arg) {
  SynchronousUpdate& own = *static_cast<Block*>(arg)->owner;
  if (--own.unfinished_ != 0) return;
  const auto done = std::move(own.done_);  // it may submit the next update
  done();
}

}  // namespace prorata
