#include "driver/cluster/job.h"

#include "driver/exit_code.h"
#include "driver/report/log.h"
#include "models/errors.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace prorata {
namespace {

// The first character of what a rank says tells what it is.
constexpr char kSaid = 's', kInputError = 'i', kOtherError = 'e';

std::string with_mark(const std::exception& e) {
  return (dynamic_cast<const InputError*>(&e) ? kInputError : kOtherError) + std::string(e.what());
}

int exit_code_of(const std::exception& e) { return dynamic_cast<const InputError*>(&e) ? exit_usage : exit_failed; }

std::string name(std::size_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

int started_ranks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* ranks = std::getenv(name)) return std::max(1, std::atoi(ranks));
  return 1;
}

int Job::run(const std::function<int()>& work) const {
  if (alone()) return work();
  try {
    const int code = work();
    gather("");
    return code;
  } catch (const std::exception& e) {
    if (!agreed_)  // now it will be
      return run([&] {
        opened(gather_bytes(with_mark(e)));
        return exit_code_of(e);
      });
    if (first()) throw;
    return exit_code_of(e);
  }
}

void Job::guard(const std::function<void()>& work, const std::function<std::string()>& hint) const {
  if (alone()) return work();
  try {
    work();
  } catch (const std::exception& e) {
    log_error(name(static_cast<std::size_t>(rank_)) + ": " + e.what() + hint());
    abort(exit_code_of(e));
  }
}

// Throws the first rank's error that is among them.
std::vector<std::string> Job::opened(std::vector<std::string> all) const {
  for (std::size_t r = 0; r < all.size(); ++r) {
    const char mark = all[r].at(0);
    all[r].erase(0, 1);
    if (mark == kSaid) continue;
    agreed_ = true;
    const std::string sentence = name(r) + ": " + all[r];
    if (mark == kInputError) throw InputError(sentence);
    throw std::runtime_error(sentence);
  }
  return all;
}

std::vector<std::string> Job::gather(const std::string& said) const {
  if (alone()) return {said};
  return opened(gather_bytes(kSaid + said));
}

std::vector<double> Job::sum(const std::vector<double>& said) const {
  if (alone()) return said;
  std::vector<double> sums(said.size(), 0), of_rank(said.size());
  const std::size_t bytes = said.size() * sizeof(double);
  for (const std::string& all : gather(std::string(reinterpret_cast<const char*>(said.data()), bytes))) {
    std::memcpy(of_rank.data(), all.data(), bytes);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank[i];
  }
  return sums;
}

std::vector<double> Job::gather(double said) const {
  std::vector<double> by_rank(static_cast<std::size_t>(ranks_), 0);
  by_rank[static_cast<std::size_t>(rank_)] = said;
  return sum(by_rank);
}

void Job::must_agree(const std::vector<std::pair<std::string, std::string>>& settings) const {
  if (alone()) return;
  for (const auto& [setting, value] : settings) {
    const std::vector<std::string> all = gather(value);
    for (std::size_t r = 1; r < all.size(); ++r) {
      if (all[r] == all[0]) continue;
      agreed_ = true;
      throw InputError("all ranks are to be started alike, but " + name(r) + " has " + setting + " " + all[r] +
                       ", and rank 0 has " + all[0]);
    }
  }
}

}  // namespace prorata
