// A StarPU of its own for a test, with as many CPU workers as it asks for.
#pragma once

#include "driver/runtime.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace prorata::test {

class WithStarpu : public ::testing::Test {
 protected:
  void start(int workers, const char* scheduler = "prorata", std::vector<std::pair<int, double>> slowdown = {}) {
    runtime_.reset();
    ::setenv("STARPU_NCPU", std::to_string(workers).c_str(), 1);
    ::setenv("STARPU_SCHED", scheduler, 1);
    runtime_ = std::make_unique<Runtime>(RuntimeOptions{.verbose = false, .slowdown = std::move(slowdown)});
  }
  void stop() { runtime_.reset(); }

 private:
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace prorata::test
