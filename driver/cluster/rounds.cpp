#include "driver/cluster/rounds.h"

namespace prorata {

Rounds::Rounds(bool bounded, Begin begin, std::function<void()> opened)
    : bounded_(bounded), begin_(std::move(begin)), opened_(std::move(opened)), thread_([this] { begin_rounds(); }) {}

Rounds::~Rounds() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::size_t Rounds::due() const {
  return trained_all_ || samples_ == 0 ? rounds_ : static_cast<std::size_t>(rounds_ * done_ / samples_);
}

void Rounds::start(std::size_t rounds, std::uint64_t samples) {
  const std::lock_guard lock(mutex_);
  rounds_ = rounds;
  samples_ = samples;
  begun_ = answered_ = made_ = done_ = 0;
  trained_all_ = last_made_ = ended_ = false;
  was_open_ = true;
  closed_ = {};
  changed_.notify_all();
}

void Rounds::trained(std::uint64_t samples) {
  const std::lock_guard lock(mutex_);
  done_ += samples;
  note_gate();
  changed_.notify_all();
}

bool Rounds::may_begin() const {
  const std::lock_guard lock(mutex_);
  return open();
}

std::size_t Rounds::behind() const {
  const std::lock_guard lock(mutex_);
  return due() - answered_;
}

void Rounds::finish() {
  std::unique_lock lock(mutex_);
  trained_all_ = true;
  note_gate();
  changed_.notify_all();
  changed_.wait(lock, [this] { return error_ || (ended_ && !reopened_ && !opening_); });
  if (error_) std::rethrow_exception(error_);
}

double Rounds::closed_seconds() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(closed_).count();
}

std::size_t Rounds::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

// The lock is held.
void Rounds::note_gate() {
  const bool now_open = open();
  if (now_open == was_open_) return;
  was_open_ = now_open;
  if (now_open) {
    closed_ += Clock::now() - closed_at_;
    reopened_ = true;
  } else {
    closed_at_ = Clock::now();
  }
}

void Rounds::begin_rounds() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto may_begin_one = [this] { return !in_flight_ && !error_ && (trained_all_ ? !ended_ : begun_ < due()); };
    changed_.wait(lock, [&] { return ending_ || reopened_ || may_begin_one(); });
    if (ending_) return;
    if (reopened_) {
      reopened_ = false;
      opening_ = true;
      lock.unlock();
      opened_();
      lock.lock();
      opening_ = false;
      changed_.notify_all();
      continue;
    }
    begun_ = due();
    if (!last_made_) ++made_;
    in_flight_ = true;
    const bool last = last_made_ = trained_all_;
    lock.unlock();
    std::exception_ptr error;
    try {
      begin_(last, [this](bool ended) {
        const std::lock_guard answer_lock(mutex_);
        in_flight_ = false;
        answered_ = begun_;
        ended_ = ended;
        note_gate();
        changed_.notify_all();
      });
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error) continue;
    error_ = error;
    note_gate();
    changed_.notify_all();
  }
}

}  // namespace prorata
