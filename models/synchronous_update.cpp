#include "models/synchronous_update.h"

#include "codelets/apply_gradient.h"
#include "models/running_statistics.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace prorata {

SynchronousUpdate::SynchronousUpdate(Network& network, SumOverAll sum_over_all)
    : network_(network),
      sum_over_all_(std::move(sum_over_all)),
      optimizer_(network.optimizer()),
      squares_handle_(DataHandle::in_main_memory(&squares_, 1)) {
  std::size_t largest = 0;
  for (std::size_t i = 0; i < network.depth(); ++i) {
    ParameterBlock* parameters = network.parameters(i);
    if (!parameters) continue;
    AlignedFloats sum(parameters->values.count);
    largest = std::max(largest, sum.count);
    // Tasks are ordered by their submission on this handle, and that makes the order of the sum.
    DataHandle handle = DataHandle::in_main_memory(sum.data.get(), sum.count);
    blocks_.push_back(std::make_unique<Block>(Block{i, parameters, std::move(sum), std::move(handle), {}}));
  }
  if (!sum_over_all_) return;
  zeros_.emplace(largest);
  zeros_handle_ = DataHandle::in_main_memory(zeros_->data.get(), largest);
  one_handle_ = DataHandle::in_main_memory(&one_, 1);
  stops_handle_ = DataHandle::in_main_memory(&stops_, 1);
}

// Of this process's replicas, for each block.
void SynchronousUpdate::plan_sums(std::span<Replica* const> replicas, double samples) {
  for (const auto& block : blocks_) {
    const ApplyGradientShape shape{static_cast<std::int32_t>(block->sum.count)};
    const starpu_data_handle_t sum = block->sum_handle.get();
    for (std::size_t r = 0; r < replicas.size(); ++r)
      plan_.add_at_home(accumulate_gradient, {sum, replicas[r]->gradient(block->operation)},
                        AccumulateGradientArgs{shape, static_cast<float>(replicas[r]->result().samples / samples),
                                               r == 0});
    if (replicas.empty())
      plan_.add_at_home(accumulate_gradient, {sum, zeros_handle_.get()}, AccumulateGradientArgs{shape, 0, true});
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

void SynchronousUpdate::submit(std::span<Replica* const> replicas, std::size_t samples, const UpdateStep& step,
                               bool stop, std::function<void(bool stop)> done) {
  done_ = std::move(done);
  plan_ = {};
  plan_sums(replicas, static_cast<double>(samples));
  if (sum_over_all_)
    plan_.add_at_home(accumulate_gradient, {stops_handle_.get(), one_handle_.get()},
                      AccumulateGradientArgs{{1}, stop ? 1.0f : 0.0f, true});
  const std::size_t summed = plan_.tasks().size();
  std::vector<BlockGradient> sums;
  for (const auto& block : blocks_)
    sums.push_back({block->sum_handle.get(), static_cast<std::int32_t>(block->sum.count)});
  if (optimizer_.clip_norm > 0)
    plan_clipping(plan_, sums, static_cast<float>(optimizer_.clip_norm), squares_handle_.get(), true);
  const std::size_t applies = plan_.tasks().size();
  for (const auto& block : blocks_) {
    block->apply.emplace(plan_, optimizer_, *block->parameters, block->sum_handle.get());
    block->apply->set(step);
  }
  plan_statistics(replicas);
  unfinished_ = blocks_.size() + statistics_.size() + (sum_over_all_ ? 1 : 0);

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
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (t == summed && sum_over_all_) submit_sums_over_all();
    submit_task(tasks[t]);
  }
}

void SynchronousUpdate::submit_sums_over_all() {
  for (std::size_t b = 0; b < blocks_.size(); ++b) sum_over_all_(b, blocks_[b]->sum_handle.get());
  sum_over_all_(blocks_.size(), stops_handle_.get());
  if (const int error = starpu_data_acquire_cb(stops_handle_.get(), STARPU_R, on_stops, this); error != 0)
    throw std::runtime_error("StarPU refuses to fetch a number (" + std::to_string(error) + ")");
}

void SynchronousUpdate::ends_with(starpu_task* task) {
  task->callback_func = on_ended;
  task->callback_arg = this;
}

// As the task holds the block's handle.
void SynchronousUpdate::on_apply(void* block) { static_cast<Block*>(block)->apply->begin(); }

void SynchronousUpdate::on_ended(void* update) { static_cast<SynchronousUpdate*>(update)->finish_one(); }

void SynchronousUpdate::on_stops(void* update) {
  auto* const own = static_cast<SynchronousUpdate*>(update);
  own->others_stop_ = own->stops_ > 0;
  starpu_data_release(own->stops_handle_.get());
  own->finish_one();
}

void SynchronousUpdate::finish_one() {
  if (--unfinished_ != 0) return;
  const auto done = std::move(done_);  // it may submit the next update
  done(others_stop_);
}

}  // namespace prorata
