// The program. Here errors become exit codes, and nowhere else.
#include "driver/cluster/job.h"
#include "driver/config_file.h"
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"
#include "driver/runtime.h"
#include "models/errors.h"

#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>

namespace {

using namespace prorata;

int run(int argc, char** argv) {
  CLI::App app{
      "Prorata trains neural networks on all the unlike devices of a machine at once, each in proportion to its "
      "speed. StarPU runs the tasks; its environment variables work (STARPU_SCHED=help lists the policies)."};
  app.name("prorata");
  app.require_subcommand(1);
  app.set_version_flag("--version", PRORATA_VERSION);

  TrainOptions train;
  CompareOptions compare;
  EvalOptions eval;
  PredictOptions predict;
  CalibrateOptions calibrate;
  DevicesOptions devices;
  SelftestOptions selftest;
  struct Subcommand {
    CLI::App* app;
    CommonOptions* common;
    std::function<int()> run;
  };
  const Subcommand subcommands[] = {
      {add_train(app, train), &train.common, [&] { return run_train(train); }},
      {add_compare(app, compare), &compare.train.common, [&] { return run_compare(compare); }},
      {add_eval(app, eval), &eval.common, [&] { return run_eval(eval); }},
      {add_predict(app, predict), &predict.common, [&] { return run_predict(predict); }},
      {add_calibrate(app, calibrate), &calibrate.common, [&] { return run_calibrate(calibrate); }},
      {add_devices(app, devices), &devices.common, [&] { return run_devices(devices); }},
      {add_selftest(app, selftest), &selftest.common, [&] { return run_selftest(selftest); }},
  };

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e, std::cout, std::cerr);  // help and version: 0
    return code == 0 ? exit_done : exit_usage;
  }
  if (const char* wanted = std::getenv("STARPU_SCHED"); wanted && std::string_view(wanted) == "help") {
    for (const auto& [name, description] : scheduling_policies())
      std::printf("%-34s %s\n", name.c_str(), description.c_str());
    return exit_done;
  }
  for (const Subcommand& s : subcommands) {
    if (!s.app->parsed()) continue;
    if (!s.common->config.empty()) apply_config_file(*s.app, s.common->config);
    if (s.app->get_name() != "train" && started_ranks() > 1)
      throw InputError("only train runs on several ranks, and " + std::to_string(started_ranks()) + " of " +
                       s.app->get_name() + " were started; start it without mpirun");
    set_log_level(s.common->quiet ? LogLevel::quiet : s.common->verbose ? LogLevel::verbose : LogLevel::normal);
    return s.run();
  }
  return exit_usage;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of the write, which has a sentence
  try {
    return run(argc, argv);
  } catch (const InputError& e) {
    log_error(e.what());
    return exit_usage;
  } catch (const std::bad_alloc&) {
    log_error("there is not enough memory; use a smaller --batch or --replicas, or a smaller network");
    return exit_failed;
  } catch (const std::exception& e) {
    log_error(e.what());
    return exit_failed;
  }
}
