#include "models/synchronous_update.h"

#include "codelets/apply_gradient.h"
#include "codelets/backend/happens_before.h"

namespace prorata {

SynchronousUpdate::SynchronousUpdate(Network& network) {
  for (std::size_t i = 0; i < network.depth(); ++i) {
    ParameterBlock* parameters = network.parameters(i);
    if (!parameters) continue;
    AlignedFloats sum(parameters->values.count);
    // Tasks are ordered by their submission on this handle, and that makes the order of the sum.
    DataHandle handle = DataHandle::in_main_memory(sum.data.get(), sum.count);
    blocks_.push_back(std::make_unique<Block>(Block{this, i, parameters, std::move(sum), std::move(handle)}));
  }
}

void SynchronousUpdate::submit(std::span<Replica* const> replicas, const SgdStep& step, std::function<void()> done) {
  done_ = std::move(done);
  unfinished_ = blocks_.size();
  double samples = 0;
  for (const Replica* r : replicas) samples += r->result().samples;

  plan_ = {};
  std::vector<starpu_task*> tasks;
  for (const auto& block : blocks_) {
    const ApplyGradientShape shape{static_cast<std::int32_t>(block->sum.count)};
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      plan_.add_at_home(accumulate_gradient, {block->sum_handle.get(), replicas[r]->gradient(block->operation)},
                        AccumulateGradientArgs{shape, static_cast<float>(replicas[r]->result().samples / samples),
                                               r == 0});
      tasks.push_back(make_task(plan_.tasks().back()));
    }
    plan_.add_at_home(apply_gradient,
                      {block->parameters->values_handle.get(), block->parameters->velocity_handle.get(),
                       block->sum_handle.get()},
                      ApplyGradientArgs{shape, step.learning_rate, step.momentum, step.weight_decay, step.weight});
    starpu_task* apply = make_task(plan_.tasks().back());
    apply->prologue_callback_pop_func = on_apply;
    apply->prologue_callback_pop_arg = block.get();
    apply->callback_func = on_applied;
    apply->callback_arg = block.get();
    tasks.push_back(apply);
  }
  for (starpu_task* task : tasks) submit_task(task);
}

// As the task holds the block's handle.
void SynchronousUpdate::on_apply(void* arg) {
  ParameterBlock* parameters = static_cast<Block*>(arg)->parameters;
  const HandleHeld held(parameters);
  ++parameters->version;
}

void SynchronousUpdate::on_applied(void* arg) {
  SynchronousUpdate& own = *static_cast<Block*>(arg)->owner;
  if (--own.unfinished_ != 0) return;
  const auto done = std::move(own.done_);  // it may submit the next update
  done();
}

}  // namespace prorata
