#include "driver/trainer.h"

#include "codelets/codelet.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>

namespace prorata {
namespace {

// Whether a worker finishes a mini-batch before it begins another.
bool groups_are_bound() {
  const starpu_sched_policy* policy = starpu_sched_ctx_get_sched_policy(0);
  return policy && std::string_view(policy->policy_name) == starpu_prorata_policy.policy_name;
}

}  // namespace

std::uint32_t largest_batch(double room, std::size_t replicas, double fixed, double per_sample, std::uint32_t wanted) {
  const double samples = (room / static_cast<double>(replicas) - fixed) / per_sample;
  return static_cast<std::uint32_t>(std::clamp(samples, 0.0, static_cast<double>(wanted)));
}

namespace {

// By worker, the samples of a mini-batch that its memory has room for beside the replicas of the others on the same
// node.
std::vector<std::uint32_t> room_for(const Network& network, const BatchSizes& sizes,
                                    const Preprocessing& preprocessing) {
  const auto wanted = static_cast<std::uint32_t>(sizes.batch) * starpu_worker_get_count();
  const bool accumulates = sizes.micro_batch < sizes.batch;
  const std::uint32_t at_once = accumulates ? static_cast<std::uint32_t>(sizes.micro_batch) : wanted;
  std::map<unsigned, std::size_t> on_node;
  const unsigned workers = starpu_worker_get_count();
  for (unsigned w = 0; w < workers; ++w) ++on_node[starpu_worker_get_memory_node(w)];
  const Replica::Bytes bytes = Replica::bytes(network, preprocessing, accumulates);
  std::vector<std::uint32_t> most;
  for (unsigned w = 0; w < workers; ++w) {
    const unsigned node = starpu_worker_get_memory_node(w);
    const starpu_ssize_t room = starpu_memory_get_available(node);  // below 0: StarPU was told of no bound
    constexpr double kForReplicas = 0.8;  // the rest is for what StarPU and evaluation need beside them
    const std::uint32_t fit =
        room < 0 ? at_once
                 : largest_batch(kForReplicas * static_cast<double>(room), on_node[node],
                                 static_cast<double>(bytes.fixed), static_cast<double>(bytes.per_sample), at_once);
    most.push_back(fit == at_once ? wanted : fit);
  }
  return most;
}

}  // namespace

Trainer::Trainer(Network& network, const TrainerOptions& options)
    : options_(options), update_(network, options.sum_over_all), bound_(options.staleness) {
  const bool synchronous = options.consistency == Consistency::bsp;
  const bool alone =
      !options.exchanged && (options.replicas == 1 || (groups_are_bound() && starpu_worker_get_count() == 1));
  const BatchSizes& sizes = options.batch;
  most_.assign(options.replicas, static_cast<std::uint32_t>(sizes.batch));
  if (options.share == PRORATA_SIZE) most_ = room_for(network, sizes, options.preprocessing);
  for (std::uint32_t most : most_) {
    const std::int32_t batch = std::max<std::int32_t>(1, static_cast<std::int32_t>(most));
    const std::int32_t at_once = sizes.micro_batch < sizes.batch ? std::min(batch, sizes.micro_batch) : batch;
    replicas_.push_back(std::make_unique<Replica>(
        network, BatchSizes(batch, at_once), alone || synchronous ? Overlap::never : Overlap::possible,
        [this](Replica& r) { finished(r); }, synchronous ? Update::later : Update::at_once, options.remedies,
        options.preprocessing));
  }
}

Trainer::~Trainer() = default;

void Trainer::run(const Pass& pass, const std::function<bool()>& stop, const std::function<void()>& tick) {
  {
    std::lock_guard lock(mutex_);
    pass_ = &pass;
    next_sample_ = 0;
    stopping_ = stopped_ = held_back_ = in_step_ = false;
    steps_ = 0;
    error_ = nullptr;
    in_flight_ = 1;
    resting_.clear();
    for (auto& replica : replicas_) resting_.push_back(replica.get());
    step_.clear();
  }
  const std::size_t left = pass.order.size(), batch = this->batch();
  const prorata_phase phase{.groups = (left + batch - 1) / batch,
                            .round = in_steps() ? static_cast<std::uint32_t>(replicas_.size()) : pass.round,
                            .kind = static_cast<std::uint32_t>(pass.kind),
                            .samples = static_cast<std::uint32_t>(batch),
                            .balance = pass.balance,
                            .in_steps = in_steps(),
                            .share = by_size() ? PRORATA_SIZE : PRORATA_COUNT,
                            .total_samples = left,
                            .most = most_.data()};
  share_out_momentum(pass.kind);
  prorata_begin_phase(0, &phase);  // under another policy there are no phases
  go_on();

  std::unique_lock lock(mutex_);
  const auto over = [this] { return in_flight_ == 0 && (!held_back_ || stopping_); };
  while (!ended_.wait_for(lock, std::chrono::milliseconds(100), over)) {
    lock.unlock();
    bool stop_now = true;
    std::exception_ptr thrown;
    try {
      stop_now = stop();
      tick();
    } catch (...) {  // what is in flight has to end all the same
      thrown = std::current_exception();
    }
    lock.lock();
    stopping_ |= stop_now || thrown;
    if (thrown && !error_) error_ = thrown;
  }
  const std::exception_ptr error = error_;
  pass_ = nullptr;
  lock.unlock();

  starpu_task_wait_for_all();
  collect_momentum(pass.kind);
  if (error) std::rethrow_exception(error);
  rethrow_kernel_error();
}

void Trainer::share_out_momentum(GroupKind kind) {
  if (!options_.remedies.dana || kind != GroupKind::train) return;
  for (std::size_t left = replicas_.size(); left > 0; --left)
    replicas_[left - 1]->take_momentum(1 / static_cast<float>(left));
}

void Trainer::collect_momentum(GroupKind kind) {
  if (!options_.remedies.dana || kind != GroupKind::train) return;
  for (const auto& replica : replicas_) replica->give_momentum();
}

// On the worker that ran the replica's last task.
void Trainer::finished(Replica& replica) {
  {
    std::lock_guard lock(mutex_);
    bound_.end(&replica);
    if (!in_steps()) {
      record(replica);
      resting_.push_back(&replica);
    }
  }
  go_on();
}

// The lock is held.
void Trainer::record(const Replica& replica) {
  if (kernel_failed() || !pass_->record(replica.result())) stopping_ = true;
}

// On the worker that ended the step's update.
void Trainer::updated(bool stop) {
  {
    std::lock_guard lock(mutex_);
    stopped_ |= stop;
    in_step_ = false;
    resting_.insert(resting_.end(), step_.begin(), step_.end());
    step_.clear();
  }
  go_on();
}

// The samples of a mini-batch of the pass, where they are all alike.
std::size_t Trainer::batch() const {
  const BatchSizes& sizes = options_.batch;
  return static_cast<std::size_t>(pass_->kind == GroupKind::train ? sizes.batch : sizes.micro_batch);
}

void Trainer::wake() {
  {
    std::lock_guard lock(mutex_);
    if (!pass_ || !held_back_) return;
    held_back_ = false;
    ++in_flight_;
  }
  go_on();
}

// The lock is held. Notes where it is the pass that says no.
bool Trainer::may_begin() {
  if (stopping_ || next_sample_ == pass_->order.size()) return false;
  held_back_ = pass_->may_begin && !pass_->may_begin();
  if (held_back_) return false;
  return options_.consistency != Consistency::ssp || pass_->kind != GroupKind::train || bound_.may_begin();
}

void Trainer::submit_resting(std::unique_lock<std::mutex>& lock) {
  for (std::size_t i = 0; i < resting_.size() && may_begin();) {
    Replica& replica = *resting_[i];
    const std::size_t samples = samples_for(replica);
    if (samples == 0) {
      ++i;
      continue;
    }
    resting_.erase(resting_.begin() + static_cast<std::ptrdiff_t>(i));
    submit(replica, samples, lock);  // without the lock for a while, so others may have come or gone
    i = 0;
  }
}

// Each replica is asked once: those that get nothing in this step wait for the next one. A step that was begun is
// submitted whole, so that a run that is stopped makes the same steps as one that is not. Common steps go on until all
// know that one wants to stop.
void Trainer::begin_step(std::unique_lock<std::mutex>& lock) {
  const CommonSteps& common = pass_->common;
  if (common.count ? stopped_ || steps_ == common.count : stopping_) return;
  in_step_ = common.count > 0;
  ++steps_;
  first_of_step_ = next_sample_;
  for (Replica* replica : std::vector<Replica*>(resting_)) {
    if (error_ || next_sample_ == pass_->order.size()) return;
    const std::size_t samples = samples_for(*replica);
    if (samples == 0) continue;
    std::erase(resting_, replica);
    in_step_ = true;
    submit(*replica, samples, lock);
  }
}

// Whoever calls it is counted in `in_flight_`, and with its end is so no more.
void Trainer::go_on() {
  std::unique_lock lock(mutex_);
  if (!in_steps())
    submit_resting(lock);
  else if (!in_step_)
    begin_step(lock);
  if (--in_flight_ > 0) return;
  if (!in_step_ || error_)
    ended_.notify_one();
  else
    end_step(lock);
}

int Trainer::worker_of(const Replica& replica) const {
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (replicas_[i].get() == &replica) return static_cast<int>(i);
  return -1;
}

// Of its next mini-batch; 0: it is to rest. There are samples left.
std::size_t Trainer::samples_for(Replica& replica) const {
  const std::size_t left = pass_->order.size() - next_sample_;
  if (by_size()) return std::min<std::size_t>(prorata_next_samples(0, worker_of(replica)), left);
  const std::int32_t room = pass_->kind == GroupKind::train ? replica.batch() : replica.micro_batch();
  return std::min({batch(), static_cast<std::size_t>(room), left});
}

void Trainer::submit(Replica& replica, std::size_t samples, std::unique_lock<std::mutex>& lock) {
  const Pass& pass = *pass_;
  const std::size_t first = next_sample_, batch = this->batch();
  const auto indices = pass.order.subspan(first, samples);
  next_sample_ += samples;
  const std::uint64_t sequence = sequence_++;
  ++in_flight_;
  bound_.begin(&replica);
  if (in_steps()) step_.push_back(&replica);
  lock.unlock();
  try {
    if (pass.kind == GroupKind::train) {
      UpdateStep step = pass.step(first);
      if (by_size()) step.weight *= static_cast<float>(samples) / static_cast<float>(batch);
      replica.submit_training(pass.data, indices, sequence, step, by_size() ? worker_of(replica) : -1);
    } else {
      const auto classes = pass.outputs.size() / pass.order.size();
      replica.submit_evaluation(pass.data, indices, sequence,
                                pass.outputs.empty() ? nullptr : &pass.outputs[first * classes]);
    }
    lock.lock();
  } catch (...) {
    lock.lock();
    fail(std::current_exception());
  }
}

// All of the step's gradients are there. Recorded in their order, sums over them are the same whoever was first.
void Trainer::end_step(std::unique_lock<std::mutex>& lock) {
  for (const Replica* replica : step_) record(*replica);
  in_flight_ = 1;  // the update
  std::size_t samples = 0;
  for (const Replica* replica : step_) samples += replica->result().samples;
  if (pass_->common.count) samples = pass_->common.samples(first_of_step_);
  const bool stop = stopping_;
  lock.unlock();
  try {
    update_.submit(step_, samples, pass_->step(first_of_step_), stop, [this](bool stop_all) { updated(stop_all); });
  } catch (...) {
    lock.lock();
    fail(std::current_exception());
    ended_.notify_one();
  }
}

// What was about to be in flight is not; the lock is held.
void Trainer::fail(std::exception_ptr error) {
  if (!error_) error_ = std::move(error);
  stopping_ = true;
  --in_flight_;
}

std::size_t overlapping(Consistency consistency, std::size_t replicas, std::uint64_t staleness) {
  if (consistency == Consistency::bsp) return 1;
  const std::size_t most = groups_are_bound() ? std::min(replicas, default_replicas()) : replicas;
  return consistency == Consistency::ssp ? std::min<std::size_t>(most, staleness + 1) : most;
}

double corrected_momentum(double wanted, std::size_t overlapping) {
  return std::max(0.0, 1 - static_cast<double>(overlapping) * (1 - wanted));
}

std::size_t default_replicas(bool one_each) {
  const std::size_t workers = starpu_worker_get_count(), cpus = starpu_cpu_worker_get_count();
  return one_each || cpus == 0 ? workers : workers + (workers - cpus);
}

}  // namespace prorata
