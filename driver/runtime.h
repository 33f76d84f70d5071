// StarPU from start to end, as the environment asks for it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace prorata {

struct RuntimeOptions {
  bool verbose = false;  // let StarPU talk
  // CPU workers to slow down, and by how much: models of their own, kept apart from those of the real machine.
  std::vector<std::pair<int, double>> slowdown;
};

// While it lives StarPU runs. Environment variables that the user has set stay as they are; others are set where
// Prorata needs another default than StarPU's. InputError: a variable of the user's has a value that StarPU could not
// work with; std::runtime_error: StarPU cannot start.
class Runtime {
 public:
  explicit Runtime(const RuntimeOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // The policy in force.
  std::string scheduler() const;
};

// Ours and StarPU's own, with descriptions.
std::vector<std::pair<std::string, std::string>> scheduling_policies();

std::string starpu_version();

}  // namespace prorata
