// Which devices can take part in training, found out before it begins: a device that cannot is left out with a warning,
// and the others go on without it.
#pragma once

#include "driver/data/dataset.h"
#include "models/network.h"
#include "models/replica.h"

#include <cstddef>
#include <cstdint>

namespace prorata {

// What a device needs, in bytes: the data set, the parameters, the mini-batches that it works on (the next one's data
// come while one runs), and what convolution makes of them.
std::size_t device_bytes(const Network& network, const Dataset& data, std::int32_t batch,
                         const Preprocessing& preprocessing = {});

// Leaves out the devices whose memory has less: StarPU would try for ever to find room for a task's data. InputError
// where nobody is left.
void leave_out_devices_without_room(const Network& network, const Dataset& data, std::int32_t batch,
                                    const Preprocessing& preprocessing = {});

// Has each device compute the gradient of one mini-batch, by each implementation, which nobody uses. Its compiler, its
// libraries, its working memory and the data set's way there take from a tenth of a second to several, and the first
// real gradient would be that stale. A device that fails at it is left out. std::runtime_error where nobody is left.
void try_devices(Network& network, const DataSource& data, std::int32_t batch, const Preprocessing& preprocessing = {});

}  // namespace prorata
