// Whether a device's memory has room for training, looked at before anything runs: StarPU tries for ever to find room
// for a task's data.
#pragma once

#include "driver/data/dataset.h"
#include "models/network.h"

#include <cstddef>
#include <cstdint>

namespace prorata {

// What a device needs, in bytes: the data set, the parameters, the mini-batches that it works on (the next one's data
// come while one runs), and what convolution makes of them.
std::size_t device_bytes(const Network& network, const Dataset& data, std::int32_t batch);

// Leaves out of all work, with a warning, the devices that have less. InputError where nobody is left.
void leave_out_devices_without_room(const Network& network, const Dataset& data, std::int32_t batch);

}  // namespace prorata
