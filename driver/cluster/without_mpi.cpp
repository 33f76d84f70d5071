// Of a build without MPI: there is one rank.
#include "driver/cluster/exchange.h"
#include "driver/cluster/gradient_sum.h"
#include "driver/cluster/job.h"
#include "models/errors.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace prorata {

Job::Job() {
  if (const int ranks = started_ranks(); ranks > 1)
    throw InputError("this prorata was built without MPI, and " + std::to_string(ranks) +
                     " ranks of it were started; build it where there is an MPI and StarPU-MPI (Debian: "
                     "libopenmpi-dev, libstarpu-dev), with PRORATA_MPI");
}

Job::~Job() = default;
void Job::abort(int code) const { std::_Exit(code); }
std::vector<std::string> Job::gather_bytes(const std::string& said) const { return {said}; }
void Job::broadcast(std::span<float>, int) const {}

std::unique_ptr<Exchange> make_exchange(const Job&, Network&, const ExchangeOptions&) {
  throw std::logic_error("there is one rank");
}
GradientSum make_gradient_sum(const Job&, Network&) { throw std::logic_error("there is one rank"); }
std::uint64_t bytes_sent() { return 0; }

}  // namespace prorata
