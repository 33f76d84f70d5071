#include "driver/trainer.h"

#include "codelets/codelet.h"

#include <algorithm>
#include <chrono>
#include <string_view>

namespace prorata {
namespace {

// Whether a worker finishes a mini-batch before it begins another.
bool groups_are_bound() {
  const starpu_sched_policy* policy = starpu_sched_ctx_get_sched_policy(0);
  return policy && std::string_view(policy->policy_name) == starpu_prorata_policy.policy_name;
}

}  // namespace

Trainer::Trainer(Network& network, std::int32_t batch, std::size_t replicas) : batch_(static_cast<std::size_t>(batch)) {
  const bool alone = replicas == 1 || (groups_are_bound() && starpu_worker_get_count() == 1);
  for (std::size_t i = 0; i < replicas; ++i)
    replicas_.push_back(std::make_unique<Replica>(network, batch, alone ? Overlap::never : Overlap::possible,
                                                  [this](Replica& r) { finished(r); }));
}

Trainer::~Trainer() = default;

void Trainer::run(const Pass& pass, const std::function<bool()>& stop, const std::function<void()>& tick) {
  const prorata_phase phase{.groups = (pass.order.size() + batch_ - 1) / batch_,
                            .round = pass.round,
                            .kind = static_cast<std::uint32_t>(pass.kind),
                            .samples = static_cast<std::uint32_t>(batch_),
                            .balance = pass.balance};
  prorata_begin_phase(0, &phase);  // under another policy there are no phases

  {
    std::lock_guard lock(mutex_);
    pass_ = &pass;
    next_sample_ = 0;
    stopping_ = false;
    error_ = nullptr;
    in_flight_ = replicas_.size();
  }
  for (auto& replica : replicas_) submit_next(*replica);

  std::unique_lock lock(mutex_);
  while (!idle_.wait_for(lock, std::chrono::milliseconds(100), [this] { return in_flight_ == 0; })) {
    lock.unlock();
    const bool stop_now = stop();
    tick();
    lock.lock();
    stopping_ |= stop_now;
  }
  const std::exception_ptr error = error_;
  lock.unlock();

  starpu_task_wait_for_all();
  if (error) std::rethrow_exception(error);
  rethrow_kernel_error();
}

// On the worker that ran the replica's last task.
void Trainer::finished(Replica& replica) {
  {
    std::lock_guard lock(mutex_);
    if (kernel_failed() || !pass_->record(replica.result())) stopping_ = true;
  }
  submit_next(replica);
}

void Trainer::submit_next(Replica& replica) {
  std::unique_lock lock(mutex_);
  const Pass& pass = *pass_;
  if (stopping_ || next_sample_ == pass.order.size()) {
    if (--in_flight_ == 0) idle_.notify_one();
    return;
  }
  const auto indices = pass.order.subspan(next_sample_, std::min(batch_, pass.order.size() - next_sample_));
  const std::size_t number = next_sample_ / batch_;
  next_sample_ += indices.size();
  const std::uint64_t sequence = sequence_++;
  lock.unlock();

  try {
    if (pass.kind == GroupKind::train)
      replica.submit_training(pass.data, indices, sequence, pass.step(number));
    else
      replica.submit_evaluation(pass.data, indices, sequence);
  } catch (...) {
    lock.lock();
    if (!error_) error_ = std::current_exception();
    stopping_ = true;
    if (--in_flight_ == 0) idle_.notify_one();
  }
}

std::size_t default_replicas() { return starpu_worker_get_count() + (groups_are_bound() ? 1 : 0); }

}  // namespace prorata
