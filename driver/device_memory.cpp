#include "driver/device_memory.h"

#include "codelets/codelet.h"
#include "codelets/conv2d.h"
#include "driver/report/log.h"
#include "models/errors.h"
#include "models/replica.h"

#include <string>

namespace prorata {
namespace {

std::string mebibytes(std::size_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

}  // namespace

std::size_t device_bytes(const Network& network, const Dataset& data, std::int32_t batch) {
  constexpr std::size_t kMinibatches = 2;
  const Replica::Bytes of_one = Replica::bytes(network, {.normalize = true});
  return data.train.bytes() + data.test.bytes() + network.parameter_count() * sizeof(float) + kConv2dWorkspace +
         kMinibatches * (of_one.fixed + of_one.per_sample * static_cast<std::size_t>(batch));
}

void leave_out_devices_without_room(const Network& network, const Dataset& data, std::int32_t batch) {
  const std::size_t needed = device_bytes(network, data, batch);
  const unsigned workers = starpu_worker_get_count();
  unsigned left_out = 0;
  std::string last;
  for (unsigned w = 0; w < workers; ++w) {
    const unsigned node = starpu_worker_get_memory_node(w);
    const starpu_ssize_t room = node == STARPU_MAIN_RAM ? -1 : starpu_memory_get_total(node);
    const bool enough = room < 0 || static_cast<std::size_t>(room) >= needed;
    leave_out_worker(static_cast<int>(w), !enough);
    if (enough) continue;
    char name[64];
    starpu_worker_get_name(static_cast<int>(w), name, sizeof(name));
    last = std::string(name) + " has " + mebibytes(static_cast<std::size_t>(room)) + " of memory; " +
           network.spec().name + " with this data set needs " + mebibytes(needed) + " at batch " +
           std::to_string(batch);
    if (++left_out < workers) log_warning(last + ". It is left out; a smaller --batch may let it take part");
  }
  if (left_out == workers)
    throw InputError(last + ", and there is no other worker: use a smaller --batch, or a CPU worker (STARPU_NCPU)");
}

}  // namespace prorata
