#pragma once

#include "driver/cluster/job.h"

namespace prorata::test {

const Job& job();

}  // namespace prorata::test
