// What the command line can say, by subcommand. Names and meanings are a contract: see docs/cli.md.
#pragma once

#include "codelets/exchange.h"
#include "driver/data/dataset.h"
#include "driver/learning_rate.h"
#include "driver/trainer.h"
#include "scheduler/prorata.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace prorata {

// Of every subcommand.
struct CommonOptions {
  std::string config;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
};

// Which data, for which network.
struct DataOptions {
  std::string model = "lenet5";
  std::string dataset = "fashion-mnist";
  std::optional<std::filesystem::path> data;
  Preparation preparation;
};

struct TrainOptions {
  CommonOptions common;
  DataOptions data;
  Preprocessing augmentation;  // what training adds to the preparation
  // Without a value: what the network's file says.
  std::optional<std::int32_t> epochs;
  std::optional<std::int32_t> batch;  // of a micro-batch
  std::int32_t accumulate = 1;        // micro-batches of a mini-batch
  std::optional<double> learning_rate;
  std::optional<double> momentum;
  std::optional<double> weight_decay;
  std::optional<OptimizerKind> optimizer;
  bool nesterov = false;
  std::optional<double> beta1, beta2, eps;  // without a value: PyTorch's
  std::optional<double> clip_norm;          // without a value: gradients are not clipped
  std::optional<LrSchedule> lr_schedule;
  std::optional<int> lr_step_epochs;
  std::optional<double> lr_gamma;
  std::optional<std::int64_t> lr_warmup;
  std::uint64_t seed = 1;
  prorata_balance balance = PRORATA_PRORATA;
  prorata_share share = PRORATA_COUNT;
  Consistency consistency = Consistency::asp;
  std::optional<std::uint64_t> staleness;  // the bound of ssp; without a value: the number of workers
  bool staleness_aware_lr = false;
  double delay_compensation = 0;
  bool momentum_correction = false;
  std::optional<bool> dana;               // without a value: with sgd's momentum where gradients are stale
  std::uint32_t round = 0;                // mini-batches a round; 0: 8 a worker
  std::optional<std::uint32_t> replicas;  // without a value: default_replicas()
  std::optional<bool> deterministic;      // without a value: with one worker, and with bsp
  bool tf32 = false;
  std::string slowdown;  // parse_slowdown() says of whom
  std::uint32_t exchange_period = 16;
  std::optional<double> exchange_weight;  // without a value: ranks^(-3/4)
  WireFormat exchange_format = WireFormat::float32;
  std::optional<double> elastic;  // without a value: no elastic averaging
  double rank_timeout = 600;      // seconds
  std::optional<std::filesystem::path> out;
  bool overwrite = false;
  bool resume = false;
  std::optional<std::filesystem::path> init;     // parameters to start from
  std::optional<std::int64_t> checkpoint_every;  // mini-batches; without a value: epochs
  std::uint32_t keep_checkpoints = 2;
  std::string progress = "auto";
  CLI::App* app = nullptr;  // the subcommand
};

// Workers that are made slower than they are, as a user writes it and as it was understood.
struct Slowdown {
  std::string text;  // "none": all are as they are
  std::vector<std::pair<int, double>> factors;
};

struct CompareOptions {
  TrainOptions train;  // what all runs have in common; of the rest only `common`, `out` and `overwrite` are used
  const CLI::App* app = nullptr;  // the subcommand, whose training_arguments() each run gets
  std::vector<Slowdown> slowdowns = {{"1:4", {{1, 4}}}};
  std::vector<std::string> balances, schedulers;  // labels; empty: all of ours, the usual ones of StarPU's
  int repeats = 3;
  int warmup = 1;        // epochs
  double timeout = 900;  // seconds
};

struct EvalOptions {
  CommonOptions common;
  DataOptions data;
  std::int32_t batch = 256;
  bool tf32 = false;
  std::filesystem::path checkpoint;
};

struct PredictOptions {
  CommonOptions common;
  DataOptions data;
  std::int32_t batch = 256;
  bool tf32 = false;
  std::filesystem::path checkpoint;
  std::optional<std::filesystem::path> samples;  // a file of samples; without one: the data set's test set
};

struct CalibrateOptions {
  CommonOptions common;
  std::string model = "lenet5";
  std::vector<std::int32_t> batches;  // ascending; empty: default_batches() and the network's own
  std::uint32_t repetitions = 50;     // most measurements of a task
  double precision = 0.01;            // to which a mini-batch's time is to be known
  bool check = false;                 // only what cannot be true
  std::vector<std::pair<int, double>> slowdown;
  bool tf32 = false;
};

struct DevicesOptions {
  CommonOptions common;
  std::string model;                  // empty: speeds are not asked for
  std::vector<std::int32_t> batches;  // ascending; empty: what was calibrated
  std::vector<std::pair<int, double>> slowdown;
  bool tf32 = false;
};

struct SelftestOptions {
  CommonOptions common;
};

// Add the subcommands with their options to the program. The structs must outlive `app`.
CLI::App* add_train(CLI::App& app, TrainOptions& options);
CLI::App* add_compare(CLI::App& app, CompareOptions& options);
CLI::App* add_eval(CLI::App& app, EvalOptions& options);
CLI::App* add_predict(CLI::App& app, PredictOptions& options);
CLI::App* add_calibrate(CLI::App& app, CalibrateOptions& options);
CLI::App* add_devices(CLI::App& app, DevicesOptions& options);
CLI::App* add_selftest(CLI::App& app, SelftestOptions& options);

// "[R/]W:F[,...]" -> of rank `rank`, worker and factor; without R it is every rank's. CLI::ValidationError where it is
// anything else.
std::vector<std::pair<int, double>> parse_slowdown(const std::string& text, int rank = 0);

// "B[,B...]" -> batch sizes, ascending, each once. CLI::ValidationError where it is anything else.
std::vector<std::int32_t> parse_batches(const std::string& text);

const char* to_string(prorata_balance balance);
const char* to_string(prorata_share share);
const char* to_string(LrSchedule schedule);
const char* to_string(OptimizerKind optimizer);
const char* to_string(Consistency consistency);
const char* to_string(WireFormat format);

// The values of --balance and --share.
std::vector<std::string> balance_names();
std::vector<std::string> share_names();

// What was given, on the command line or in a file, of the options that `train` and `compare` share: arguments that say
// the same to `train`.
std::vector<std::string> training_arguments(const CLI::App& subcommand);

// The subcommands. Each returns the exit code; results on standard output.
int run_train(TrainOptions& options);  // a resumed run's options are filled in from its checkpoint
int run_compare(const CompareOptions& options);
int run_eval(const EvalOptions& options);
int run_predict(const PredictOptions& options);
int run_calibrate(const CalibrateOptions& options);
int run_devices(const DevicesOptions& options);
int run_selftest(const SelftestOptions& options);

}  // namespace prorata
