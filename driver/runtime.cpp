#include "driver/runtime.h"

#include "codelets/backend/cpu_worker.h"
#include "codelets/backend/device_workers.h"
#include "driver/report/log.h"
#include "driver/speed/damaged_files.h"
#include "models/errors.h"
#include "scheduler/prorata.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

namespace prorata {
namespace fs = std::filesystem;
namespace {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

void set_default(const char* name, const std::string& value) {
  if (!environment(name)) ::setenv(name, value.c_str(), 1);
}

// StarPU aborts on some values and silently takes others for 0.
void check_integer(const char* name, long least) {
  const auto text = environment(name);
  if (!text) return;
  long value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > 1'000'000)
    throw InputError(std::string("the environment variable ") + name + " is '" + *text + "'; an integer from " +
                     std::to_string(least) + " on is expected");
}

// StarPU would let the submitting thread wait for other tasks to end. Ours is a worker that must run them.
void lift_submission_limit() {
  if (!environment("STARPU_LIMIT_MAX_SUBMITTED_TASKS") && !environment("STARPU_LIMIT_MIN_SUBMITTED_TASKS")) return;
  ::unsetenv("STARPU_LIMIT_MAX_SUBMITTED_TASKS");
  ::unsetenv("STARPU_LIMIT_MIN_SUBMITTED_TASKS");
  log_warning(
      "STARPU_LIMIT_MAX_SUBMITTED_TASKS and STARPU_LIMIT_MIN_SUBMITTED_TASKS are ignored: what is in flight "
      "is bounded by --replicas");
}

// The policy to hand to StarPU, null for one of StarPU's own, which STARPU_SCHED then names.
starpu_sched_policy* choose_policy() {
  const auto wanted = environment("STARPU_SCHED");
  if (!wanted || *wanted == starpu_prorata_policy.policy_name) {
    ::unsetenv("STARPU_SCHED");  // StarPU would only warn that it does not know the name
    return &starpu_prorata_policy;
  }
  std::string known;
  for (const auto& [name, description] : scheduling_policies()) {
    if (name == *wanted) return nullptr;
    known += (known.empty() ? "" : ", ") + name;
  }
  if (environment("STARPU_SCHED_LIB")) return nullptr;  // StarPU 1.4 looks there; check_policy() sees what it found
  throw InputError("unknown scheduling policy STARPU_SCHED='" + *wanted + "'; known are " + known);
}

// StarPU takes another policy where it does not find the one that is asked for.
void check_policy() {
  const std::string found = starpu_sched_ctx_get_sched_policy(0)->policy_name;
  if (const auto wanted = environment("STARPU_SCHED"); wanted && found != *wanted)
    throw InputError("scheduling policy STARPU_SCHED='" + *wanted + "' is neither StarPU's nor in the library that " +
                     "STARPU_SCHED_LIB names (StarPU asks it from version 1.4 on; this is " + starpu_version() + ")");
}

bool can_write_below(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  return !error && ::access(directory.c_str(), W_OK | X_OK) == 0;
}

// StarPU aborts where it cannot write its models.
void check_model_directory() {
  const fs::path directory = model_directory();
  if (can_write_below(directory)) return;
  if (environment("STARPU_PERF_MODEL_DIR"))
    throw InputError("STARPU_PERF_MODEL_DIR: the folder " + directory.string() +
                     " cannot be made or written; name one that can");
  std::string name = (fs::temp_directory_path() / "prorata-models-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error(name + ": cannot be made: " + std::strerror(errno));
  ::setenv("STARPU_PERF_MODEL_DIR", name.c_str(), 1);
  log_warning("StarPU's performance models cannot be kept in " + directory.string() + "; this run keeps them in " +
              name + ". Name a folder with STARPU_PERF_MODEL_DIR to keep them.");
}

constexpr std::size_t kLongestHostName = 60;  // StarPU cuts longer ones

// Slowed workers must neither share a model with the others nor leave their times among the real machine's; nor must
// devices that round their factors.
void keep_models_apart(const std::vector<std::pair<int, double>>& slowdown, bool tf32) {
  if (slowdown.empty() && !tf32) return;
  std::string how;
  for (const auto& [worker, factor] : slowdown)
    how += "-" + std::to_string(worker) + "x" + std::to_string(std::lround(factor * 100));
  if (tf32) how += "-tf32";
  std::string host = model_host() + (slowdown.empty() ? "" : "-slowed");
  if (host.size() + how.size() > kLongestHostName) how = "-" + std::to_string(std::hash<std::string>()(how));
  host = host.substr(0, kLongestHostName - std::min(kLongestHostName, how.size())) + how;
  ::setenv("STARPU_HOSTNAME", host.c_str(), 1);
}

// "0, 1": devices may have numbers before theirs.
std::string cpu_workers() {
  std::string list;
  for (int w = 0; w < static_cast<int>(starpu_worker_get_count()); ++w)
    if (starpu_worker_get_type(w) == STARPU_CPU_WORKER) list += (list.empty() ? "" : ", ") + std::to_string(w);
  return list.empty() ? "none" : list;
}

void apply_slowdown(const std::vector<std::pair<int, double>>& slowdown) {
  for (const auto& [worker, factor] : slowdown) {
    if (worker < 0 || worker >= static_cast<int>(starpu_worker_get_count()) ||
        starpu_worker_get_type(worker) != STARPU_CPU_WORKER)
      throw InputError("--slowdown: worker " + std::to_string(worker) + " is no CPU worker; CPU workers are " +
                       cpu_workers() + " ('prorata devices')");
    set_cpu_slowdown(worker, factor);
  }
}

}  // namespace

fs::path model_directory() {
  if (const auto set = environment("STARPU_PERF_MODEL_DIR")) return *set;
  fs::path home = "/tmp";
  for (const char* name : {"XDG_CACHE_HOME", "STARPU_HOME", "HOME", "TMPDIR", "TEMP", "TMP"})
    if (const auto set = environment(name)) {
      home = *set;
      break;
    }
  return home / ".starpu/sampling";
}

std::string model_host() {
  if (const auto set = environment("STARPU_HOSTNAME")) return *set;
  char name[256] = "localhost";
  ::gethostname(name, sizeof(name) - 1);
  return std::string(name, std::strcspn(name, "."));  // StarPU leaves the domain out
}

bool cpus_share_models() { return environment("STARPU_PERF_MODEL_HOMOGENEOUS_CPU") != "0"; }

std::vector<std::pair<std::string, std::string>> scheduling_policies() {
  std::vector<std::pair<std::string, std::string>> policies{
      {starpu_prorata_policy.policy_name, starpu_prorata_policy.policy_description}};
  for (starpu_sched_policy** p = starpu_sched_get_predefined_policies(); *p; ++p)
    if ((*p)->policy_name && *p != &starpu_prorata_policy)  // StarPU 1.3's table has ours as well
      policies.emplace_back((*p)->policy_name, (*p)->policy_description ? (*p)->policy_description : "");
  return policies;
}

std::string starpu_version() {
  int major = 0, minor = 0, release = 0;
  starpu_get_version(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

Runtime::Runtime(const RuntimeOptions& options) {
  for (const char* name : {"STARPU_NCPU", "STARPU_NCPUS", "STARPU_NCUDA", "STARPU_NOPENCL"}) check_integer(name, -1);
  for (const char* name : {"STARPU_CALIBRATE", "STARPU_HISTORY_MAX_ERROR", "STARPU_CALIBRATE_MINIMUM"})
    check_integer(name, 0);
  starpu_sched_policy* policy = choose_policy();
  check_model_directory();
  lift_submission_limit();
  if (!options.verbose) set_default("STARPU_SILENT", "1");
  // A busy machine's outliers would flush a model again and again at StarPU's 50 %.
  set_default("STARPU_HISTORY_MAX_ERROR", "200");
  // StarPU would set a CPU core aside for each device that it can drive, though no codelet could use it.
  set_default("STARPU_NHIP", "0");
#if !defined(PRORATA_CUDA)
  set_default("STARPU_NCUDA", "0");
#endif
#if !defined(PRORATA_OPENCL)
  set_default("STARPU_NOPENCL", "0");
#endif
  // A device that is a processor needs the core on which StarPU's driver would poll for its kernels' ends.
  if (environment("STARPU_OPENCL_ON_CPUS").value_or("0") != "0" ||
      environment("STARPU_OPENCL_ONLY_ON_CPUS").value_or("0") != "0")
    set_default("STARPU_OPENCL_PIPELINE", "0");
  keep_models_apart(options.slowdown, options.tf32);
  if (!options.slowdown.empty() || options.unlike_cpus()) set_default("STARPU_PERF_MODEL_HOMOGENEOUS_CPU", "0");
  set_damaged_models_aside();

  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.sched_policy = policy;
  conf.catch_signals = 0;
  if (const int error = starpu_init(&conf); error == -ENODEV)
    throw InputError("StarPU found no worker; look at STARPU_NCPU, STARPU_NCUDA and STARPU_NOPENCL");
  else if (error != 0)
    throw std::runtime_error(std::string("StarPU could not start: ") + std::strerror(-error));
  try {
    check_policy();
    init_cpu_workers();
    init_device_workers(options.tf32);
    apply_slowdown(options.slowdown);
    tf32_ = options.tf32 && starpu_cuda_worker_get_count() > 0;
#if defined(PRORATA_CUDA)
    if (starpu_cuda_worker_get_count() == 0 && environment("STARPU_NCUDA") != "0")
      log_info("no CUDA device found: going on with what is there (STARPU_NCUDA=0 says that this is wanted)");
#endif
    if (options.tf32 && !tf32_) log_warning("--tf32 changes nothing here: there is no CUDA worker");
  } catch (...) {
    shutdown_device_workers();
    starpu_shutdown();
    throw;
  }
}

Runtime::~Runtime() {
  for (unsigned w = 0; w < starpu_worker_get_count(); ++w) set_cpu_slowdown(static_cast<int>(w), 1);
  shutdown_device_workers();
  starpu_shutdown();
}

std::string Runtime::scheduler() const { return starpu_sched_ctx_get_sched_policy(0)->policy_name; }

}  // namespace prorata
