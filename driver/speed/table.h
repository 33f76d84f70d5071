// Speed against batch size, worker by worker, and the shares that follow: for people and as JSON.
#pragma once

#include "driver/speed/training_models.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace prorata {

struct SpeedPoint {
  std::int32_t batch;
  double seconds;  // of a mini-batch
  unsigned measurements;
  std::optional<double> spread;  // mean over the tasks, weighed by time; none where there is no record of it
};

struct WorkerSpeed {
  int id;
  std::string name, kind;
  std::vector<SpeedPoint> points;  // what is known
  std::optional<double> share;     // fraction of the mini-batches; none where nothing is known of any worker
};

struct SpeedTable {
  std::int32_t batch;  // at which the shares are
  std::vector<WorkerSpeed> workers;
  bool empty() const;
};

// `batch` is one of the shapes' sizes.
SpeedTable speed_table(const TrainingShapes& shapes, const Entries& entries, const CalibrationRecord* record,
                       std::int32_t batch);

nlohmann::ordered_json points_json(const WorkerSpeed& worker);
nlohmann::ordered_json share_json(const WorkerSpeed& worker);
// One row a batch size, one column a worker: samples a second; then the shares.
std::string text(const SpeedTable& table);

}  // namespace prorata
