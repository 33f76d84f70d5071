#include "driver/speed/table.h"

#include "driver/report/topology.h"
#include "scheduler/partition.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace prorata {
namespace {

constexpr std::int64_t kShared = 1000;  // mini-batches, to see shares to three digits

SpeedPoint point(const TrainingShapes& shapes, const Entries& entries, const CalibrationRecord* record, std::size_t b,
                 int worker) {
  SpeedPoint result{shapes.batches()[b], 0, ~0u, record ? std::optional<double>(0) : std::nullopt};
  for (const TrainingShapes::Task& task : shapes.tasks(b)) {
    if (task.implementations(worker).empty()) continue;
    const auto [key, entry] = *best_entry(entries, task, worker);
    result.seconds += entry.seconds;
    result.measurements = std::min(result.measurements, entry.measurements);
    if (!result.spread) continue;
    const auto known = record->entries.find(name_of(key));
    if (known == record->entries.end())
      result.spread.reset();
    else
      *result.spread += entry.seconds * known->second.spread;
  }
  if (result.spread) *result.spread /= result.seconds;
  return result;
}

}  // namespace

bool SpeedTable::empty() const {
  return std::all_of(workers.begin(), workers.end(), [](const WorkerSpeed& w) { return w.points.empty(); });
}

SpeedTable speed_table(const TrainingShapes& shapes, const Entries& entries, const CalibrationRecord* record,
                       std::int32_t batch) {
  SpeedTable table{batch, {}};
  std::vector<double> seconds;
  for (const WorkerPlace& place : worker_places()) {
    WorkerSpeed& w = table.workers.emplace_back(WorkerSpeed{place.id, place.name, place.kind, {}, {}});
    for (std::size_t b = 0; b < shapes.batches().size(); ++b)
      if (!std::isnan(price(shapes, entries, b, place.id)))
        w.points.push_back(point(shapes, entries, record, b, place.id));
    seconds.push_back(price(shapes, entries, shapes.index_of(batch), place.id));
  }
  if (std::all_of(seconds.begin(), seconds.end(), [](double s) { return std::isnan(s); })) return table;
  const std::vector<std::int64_t> shares = partition_count(seconds, kShared);
  for (std::size_t w = 0; w < shares.size(); ++w)
    table.workers[w].share = static_cast<double>(shares[w]) / static_cast<double>(kShared);
  return table;
}

nlohmann::ordered_json points_json(const WorkerSpeed& worker) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const SpeedPoint& p : worker.points)
    points.push_back({{"batch", p.batch},
                      {"seconds", p.seconds},
                      {"samples_per_second", p.batch / p.seconds},
                      {"measurements", p.measurements},
                      {"spread", p.spread ? nlohmann::ordered_json(*p.spread) : nullptr}});
  return points;
}

nlohmann::ordered_json share_json(const WorkerSpeed& worker) {
  return worker.share ? nlohmann::ordered_json(*worker.share) : nullptr;
}

std::string text(const SpeedTable& table) {
  std::set<std::int32_t> batches;
  std::string out = "   batch";
  char cell[64];
  for (const WorkerSpeed& w : table.workers) {
    std::snprintf(cell, sizeof(cell), "%14s", ("worker " + std::to_string(w.id)).c_str());
    out += cell;
    for (const SpeedPoint& p : w.points) batches.insert(p.batch);
  }
  out += "   samples/s\n";
  for (std::int32_t batch : batches) {
    std::snprintf(cell, sizeof(cell), "%8d", batch);
    out += cell;
    for (const WorkerSpeed& w : table.workers) {
      const auto p =
          std::find_if(w.points.begin(), w.points.end(), [&](const SpeedPoint& q) { return q.batch == batch; });
      if (p == w.points.end())
        std::snprintf(cell, sizeof(cell), "%14s", "-");
      else
        std::snprintf(cell, sizeof(cell), "%14.0f", p->batch / p->seconds);
      out += cell;
    }
    out += "\n";
  }
  out += "   share";
  for (const WorkerSpeed& w : table.workers) {
    if (w.share)
      std::snprintf(cell, sizeof(cell), "%14.3f", *w.share);
    else
      std::snprintf(cell, sizeof(cell), "%14s", "-");
    out += cell;
  }
  return out + "   of the mini-batches, at batch " + std::to_string(table.batch) + "\n";
}

}  // namespace prorata
