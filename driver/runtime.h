// StarPU from start to end, as the environment asks for it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace prorata {

struct RuntimeOptions {
  bool verbose = false;  // let StarPU talk
  // CPU workers to slow down, and by how much: models of their own, kept apart from those of the real machine.
  std::vector<std::pair<int, double>> slowdown;
  // CUDA devices may round the factors of products to TF32: again with models of their own.
  bool tf32 = false;
  // Whether each CPU worker keeps models of its own, as where slowed; else they share one, unless the user says
  // otherwise. Asked when model_host() has its value for this run.
  std::function<bool()> unlike_cpus = [] { return false; };
};

// While it lives StarPU runs. Environment variables that the user has set stay as they are; others are set where
// Prorata needs another default than StarPU's, and damaged files of its models are set aside (speed/damaged_files.h).
// InputError: a variable of the user's has a value that StarPU could not work with; std::runtime_error: StarPU cannot
// start.
class Runtime {
 public:
  explicit Runtime(const RuntimeOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // The policy in force.
  std::string scheduler() const;
  // Whether some device does round to TF32: it was allowed, and there is a CUDA worker.
  bool tf32() const { return tf32_; }

 private:
  bool tf32_ = false;
};

// Ours and StarPU's own, with descriptions.
std::vector<std::pair<std::string, std::string>> scheduling_policies();

std::string starpu_version();

// Where StarPU keeps its performance models, and what it calls this machine in their names.
std::filesystem::path model_directory();
std::string model_host();
// Whether CPU workers share one model.
bool cpus_share_models();

}  // namespace prorata
