// `prorata predict`: class and probabilities of samples, a JSON line each.
#include "driver/checkpoint.h"
#include "driver/device_check.h"
#include "driver/evaluation.h"
#include "driver/exit_code.h"
#include "driver/options.h"
#include "driver/report/log.h"
#include "driver/runtime.h"
#include "driver/stop_signal.h"
#include "models/errors.h"
#include "models/parameter_file.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>

namespace prorata {
namespace {

constexpr std::size_t kSamplesAtATime = 16384;  // between which lines are written

std::vector<double> softmax(std::span<const float> outputs) {
  const double most = *std::max_element(outputs.begin(), outputs.end());
  std::vector<double> probabilities;
  double sum = 0;
  for (const float y : outputs) sum += probabilities.emplace_back(std::exp(y - most));
  for (double& p : probabilities) p /= sum;
  return probabilities;
}

// JSON has no not-a-number; neither has a network whose outputs are none a class.
nlohmann::ordered_json prediction(std::size_t index, std::span<const float> outputs) {
  nlohmann::ordered_json line{{"index", index}, {"class", nullptr}, {"probabilities", nullptr}};
  if (!std::all_of(outputs.begin(), outputs.end(), [](float y) { return std::isfinite(y); })) return line;
  line["class"] = std::max_element(outputs.begin(), outputs.end()) - outputs.begin();
  line["probabilities"] = softmax(outputs);
  return line;
}

}  // namespace

int run_predict(const PredictOptions& o) {
  if (o.checkpoint.empty()) throw InputError("predict needs a checkpoint: a parameter file or a run directory");
  const std::filesystem::path file = find_parameters(o.checkpoint);
  const std::filesystem::path network_file = find_network_of(file, o.data.model);
  const bool normalize = o.data.preparation.normalize;
  NetworkAndData all;
  if (!o.samples || normalize)
    all = load_network_and_data(network_file, o.data.dataset, o.data.data, 1, o.data.preparation);
  if (o.samples) {
    std::vector<float> normalization = std::move(all.data.test.normalization);  // of the training set
    all.data = load_images(*o.samples, normalize ? all.network : read_network_spec(network_file));
    all.network = read_network_spec(network_file, SampleSpec{all.data.shape, all.data.classes});
    all.data.test.normalization = std::move(normalization);
  }
  const auto& [spec, data] = all;
  const Runtime runtime({.verbose = o.common.verbose, .slowdown = {}, .tf32 = o.tf32});
  const StopSignal stop;
  Network network(spec, 0);
  read_parameters(network, file);
  const Preprocessing preprocessing{.normalize = normalize};
  leave_out_devices_without_room(network, data, o.batch, preprocessing);
  Trainer trainer(network, {.batch = o.batch, .replicas = default_replicas(), .preprocessing = preprocessing});
  const SampleHandles handles(data.test);
  const auto classes = static_cast<std::size_t>(spec.classes);
  for (std::size_t first = 0; first < data.test.size(); first += kSamplesAtATime) {
    const std::size_t last = std::min(first + kSamplesAtATime, data.test.size());
    const std::vector<float> outputs =
        outputs_of(trainer, handles, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last), spec.classes,
                   [] { return StopSignal::caught() != 0; });
    if (outputs.empty()) {
      log_info("stopped by a signal after " + std::to_string(first) + " of " + std::to_string(data.test.size()) +
               " samples");
      return 128 + StopSignal::caught();
    }
    for (std::size_t i = first; i < last; ++i) {
      auto line = prediction(i, std::span(outputs).subspan((i - first) * classes, classes));
      if (!o.samples) line["label"] = data.test.labels[i];
      std::cout << line.dump() << '\n';
    }
  }
  std::cout.flush();
  if (!std::cout) throw std::runtime_error("standard output cannot be written; is the disk full?");
  return exit_done;
}

}  // namespace prorata
