#include "driver/report/summary.h"

#include "driver/options.h"
#include "driver/report/topology.h"
#include "driver/runtime.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace prorata {

using Json = nlohmann::ordered_json;

Summary::Summary(int rank) {
  for (const WorkerPlace& place : worker_places()) {
    WorkerSummary w;
    w.rank = rank;
    w.id = place.id;
    w.name = place.name;
    w.kind = place.kind;
    w.memory_node = place.memory_node;
    workers.push_back(std::move(w));
  }
}

void Summary::add(const MinibatchResult& m) {
  ++minibatches;
  samples += m.samples;
  WorkerSummary& w = workers.at(static_cast<std::size_t>(m.worker));
  ++w.minibatches;
  w.samples += m.samples;
  w.minibatch_seconds += m.finished - m.started;
  w.staleness.add(m.staleness);
}

namespace {

double rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

// JSON has no not-a-number.
Json number(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

// `samples`, `wall_seconds`: of the run.
Json json_of(const WorkerSummary& w, std::uint64_t samples, double wall_seconds) {
  return {{"rank", w.rank},
          {"id", w.id},
          {"name", w.name},
          {"kind", w.kind},
          {"memory_node", w.memory_node},
          {"minibatches", w.minibatches},
          {"samples", w.samples},
          {"share", rate(static_cast<double>(w.samples), static_cast<double>(samples))},
          {"expected_samples_per_second",
           w.expected_samples_per_second > 0 ? Json(w.expected_samples_per_second) : Json(nullptr)},
          {"measured_samples_per_second", rate(static_cast<double>(w.samples), w.minibatch_seconds)},
          {"busy_seconds", w.kind == "cpu" ? Json(w.busy_seconds) : Json(nullptr)},  // else not measured
          {"idle_seconds", w.kind == "cpu" ? Json(std::max(0.0, wall_seconds - w.busy_seconds)) : Json(nullptr)},
          {"slowdown", w.slowdown},
          {"staleness", w.staleness.json()}};
}

}  // namespace

Json Summary::ranks_json() const {
  Json list = Json::array();
  for (std::size_t r = 0; r < ranks.size(); ++r)
    list.push_back({{"rank", r},
                    {"host", ranks[r].host},
                    {"minibatches", ranks[r].minibatches},
                    {"samples", ranks[r].samples},
                    {"share", rate(static_cast<double>(ranks[r].samples), static_cast<double>(samples))},
                    {"samples_per_second", rate(static_cast<double>(ranks[r].samples), wall_seconds)},
                    {"rounds", ranks[r].rounds},
                    {"bytes_sent", ranks[r].bytes_sent},
                    {"rounds_behind", ranks[r].behind.json()}});
  return list;
}

Json Summary::json() const {
  const bool adam = is_adam(rule.optimizer.kind), in_steps = rule.lr_schedule == LrSchedule::step;
  Json root = {{"version", PRORATA_VERSION},
               {"model", model},
               {"parameters", parameters},
               {"dataset", dataset},
               {"seed", seed},
               {"preprocessing",
                {{"normalize", preprocessing.normalize},
                 {"random_crop", preprocessing.random_crop},
                 {"horizontal_flip", preprocessing.horizontal_flip},
                 {"cutout", preprocessing.cutout}}},
               {"train_per_class", train_per_class ? Json(*train_per_class) : Json(nullptr)},
               {"split_seed", split_seed ? Json(*split_seed) : Json(nullptr)},
               {"init", init ? Json(*init) : Json(nullptr)},
               {"epochs", epochs},
               {"epochs_wanted", epochs_wanted},
               {"stopped_by", stopped_by.empty() ? Json(nullptr) : Json(stopped_by)},
               {"minibatches", minibatches},
               {"samples", samples},
               {"batch", micro_batch()},
               {"accumulate", accumulate},
               {"optimizer", to_string(rule.optimizer.kind)},
               {"learning_rate", rule.learning_rate},
               {"effective_learning_rate", effective_learning_rate},
               {"lr_schedule", to_string(rule.lr_schedule)},
               {"lr_step_epochs", in_steps ? Json(rule.lr_step_epochs) : Json(nullptr)},
               {"lr_gamma", in_steps ? Json(rule.lr_gamma) : Json(nullptr)},
               {"lr_warmup", lr_warmup},
               {"momentum", adam ? Json(nullptr) : Json(rule.momentum)},
               {"effective_momentum", adam ? Json(nullptr) : Json(effective_momentum)},
               {"nesterov", adam ? Json(nullptr) : Json(rule.optimizer.nesterov)},
               {"betas", adam ? Json{rule.optimizer.beta1, rule.optimizer.beta2} : Json(nullptr)},
               {"eps", adam ? Json(rule.optimizer.epsilon) : Json(nullptr)},
               {"weight_decay", rule.weight_decay},
               {"clip_norm", rule.optimizer.clip_norm > 0 ? Json(rule.optimizer.clip_norm) : Json(nullptr)},
               {"wall_seconds", wall_seconds},
               {"samples_per_second", rate(static_cast<double>(samples), wall_seconds)},
               {"train_loss", number(train_loss)},
               {"test_loss", tested ? number(test_loss) : Json(nullptr)},
               {"test_accuracy", tested ? number(test_accuracy) : Json(nullptr)},
               {"balance", balance},
               {"share", share},
               {"consistency", consistency},
               {"staleness_bound", staleness_bound ? Json(*staleness_bound) : Json(nullptr)},
               {"staleness_aware_lr", staleness_aware_lr},
               {"delay_compensation", delay_compensation},
               {"dana", dana},
               {"momentum_correction", momentum_correction},
               {"scheduler", scheduler},
               {"replicas", replicas},
               {"deterministic", deterministic},
               {"tf32", tf32},
               {"emulated", std::any_of(workers.begin(), workers.end(), [](auto& w) { return w.slowdown > 1; })}};
  Json& list = root["workers"] = Json::array();
  for (const WorkerSummary& w : workers) list.push_back(json_of(w, samples, wall_seconds));
  root["staleness"] = staleness().json();
  Json& dealt = root["rounds"] = Json::array();
  for (const Round& r : rounds)
    dealt.push_back(
        {{"shares", r.shares}, {"expected_seconds", r.expected_seconds}, {"measured_seconds", r.measured_seconds}});
  Json& moved = root["transfers"] = Json::array();
  for (const Traffic& t : transfers)
    moved.push_back({{"from", t.from}, {"to", t.to}, {"bytes", t.bytes}, {"transfers", t.transfers}});
  if (!ranks.empty()) root["ranks"] = ranks_json();
  root["starpu_version"] = starpu_version();
  root["host"] = host_json();
  return root;
}

void to_json(nlohmann::json& json, const WorkerSummary& w) {
  json = {{"rank", w.rank},
          {"id", w.id},
          {"name", w.name},
          {"kind", w.kind},
          {"memory_node", w.memory_node},
          {"minibatches", w.minibatches},
          {"samples", w.samples},
          {"minibatch_seconds", w.minibatch_seconds},
          {"expected_samples_per_second", w.expected_samples_per_second},
          {"busy_seconds", w.busy_seconds},
          {"slowdown", w.slowdown},
          {"staleness", w.staleness}};
}

void from_json(const nlohmann::json& json, WorkerSummary& w) {
  w.rank = json.value("rank", 0);  // checkpoints of before there were ranks have none
  json.at("id").get_to(w.id);
  json.at("name").get_to(w.name);
  json.at("kind").get_to(w.kind);
  json.at("memory_node").get_to(w.memory_node);
  json.at("minibatches").get_to(w.minibatches);
  json.at("samples").get_to(w.samples);
  json.at("minibatch_seconds").get_to(w.minibatch_seconds);
  w.expected_samples_per_second = json.value("expected_samples_per_second", 0.0);
  json.at("busy_seconds").get_to(w.busy_seconds);
  json.at("slowdown").get_to(w.slowdown);
  json.at("staleness").get_to(w.staleness);
}

std::vector<WorkerSummary> Summary::workers_here() const {
  std::vector<WorkerSummary> here;
  std::ranges::copy_if(workers, std::back_inserter(here), [](const WorkerSummary& w) { return w.here; });
  return here;
}

WorkerSummary* Summary::find(const WorkerSummary& wanted) {
  const auto found = std::ranges::find_if(workers, [&](const WorkerSummary& w) {
    return w.rank == wanted.rank && w.id == wanted.id && w.name == wanted.name;
  });
  return found == workers.end() ? nullptr : &*found;
}

void Summary::put(const WorkerSummary& worker) {
  if (WorkerSummary* const place = find(worker))
    *place = worker;
  else
    workers.push_back(worker);
}

nlohmann::json Summary::counts() const {
  nlohmann::json root = {{"init", init ? nlohmann::json(*init) : nlohmann::json(nullptr)},
                         {"epochs", epochs},
                         {"minibatches", minibatches},
                         {"samples", samples},
                         {"wall_seconds", wall_seconds},
                         {"train_loss", train_loss},
                         {"tested", tested},
                         {"test_loss", test_loss},
                         {"test_accuracy", test_accuracy},
                         {"workers", nlohmann::json::array()},
                         {"ranks", ranks},
                         {"rounds", nlohmann::json::array()},
                         {"transfers", nlohmann::json::array()}};
  for (const WorkerSummary& w : workers) root["workers"].push_back(w);
  for (const Round& r : rounds) root["rounds"].push_back({r.shares, r.expected_seconds, r.measured_seconds});
  for (const Traffic& t : transfers) root["transfers"].push_back({t.from, t.to, t.bytes, t.transfers});
  return root;
}

void Summary::go_on_from(const nlohmann::json& counts) {
  const auto real = [](const nlohmann::json& v) { return v.is_null() ? std::nan("") : v.get<double>(); };
  if (const nlohmann::json& from = counts.at("init"); !from.is_null()) init = from.get<std::string>();
  counts.at("epochs").get_to(epochs);
  counts.at("minibatches").get_to(minibatches);
  counts.at("samples").get_to(samples);
  counts.at("wall_seconds").get_to(wall_seconds);
  counts.at("tested").get_to(tested);
  train_loss = real(counts.at("train_loss"));
  test_loss = real(counts.at("test_loss"));
  test_accuracy = real(counts.at("test_accuracy"));
  for (const nlohmann::json& before : counts.at("workers")) {
    WorkerSummary w = before.get<WorkerSummary>();
    w.expected_samples_per_second = 0;
    const WorkerSummary* const today = find(w);
    w.here = today != nullptr;
    if (today) w.slowdown = today->slowdown;
    put(w);
  }
  if (counts.contains("ranks")) counts.at("ranks").get_to(ranks);
  for (const nlohmann::json& r : counts.at("rounds"))
    rounds.push_back({r.at(0).get<std::vector<std::int64_t>>(), real(r.at(1)), real(r.at(2)), {}, false});
  for (const nlohmann::json& t : counts.at("transfers"))
    transfers.push_back(
        {t.at(0).get<int>(), t.at(1).get<int>(), t.at(2).get<std::uint64_t>(), t.at(3).get<std::uint64_t>()});
}

// By the shares of the last round.
bool Summary::too_slow(const WorkerSummary& w) const {
  if (rounds.empty()) return false;
  const std::vector<std::int64_t>& shares = rounds.back().shares;
  const auto i = static_cast<std::size_t>(&w - workers.data());
  return i < shares.size() && shares[i] == 0 && std::accumulate(shares.begin(), shares.end(), std::int64_t{0}) > 0;
}

StalenessHistogram Summary::staleness() const {
  StalenessHistogram all;
  for (const WorkerSummary& w : workers) all.merge(w.staleness);
  return all;
}

std::string Summary::text() const {
  std::string out;
  const auto line = [&out](const std::string& s) { out += s + "\n"; };
  line(fmt::format("{} on {}: {} of {} epochs, {} mini-batches of {}{}", model, dataset, epochs, epochs_wanted,
                   minibatches, batch, stopped_by.empty() ? "" : ", stopped by " + stopped_by));
  if (tested) line(fmt::format("  test accuracy  {:.4f}   test loss {:.4f}", test_accuracy, test_loss));
  const StalenessHistogram all = staleness();
  line(fmt::format("  samples/s      {:.0f}   ({:.2f} s of training, scheduler {}, balance {})",
                   rate(static_cast<double>(samples), wall_seconds), wall_seconds, scheduler, balance));
  line(fmt::format("  staleness      mean {:.2f}, p95 {}, max {}", all.mean(), all.percentile(0.95), all.max()));
  for (const WorkerSummary& w : workers)
    line(fmt::format("  {}worker {} {:<16} {:5.1f} %  {:6} mini-batches  {:8.0f} samples/s{}  staleness {:.2f}{}{}",
                     ranks.empty() ? "" : fmt::format("rank {} ", w.rank), w.id, w.name,
                     100 * rate(static_cast<double>(w.samples), static_cast<double>(samples)), w.minibatches,
                     rate(static_cast<double>(w.samples), w.minibatch_seconds),
                     w.kind == "cpu" ? fmt::format("  busy {:3.0f} %", 100 * rate(w.busy_seconds, wall_seconds)) : "",
                     w.staleness.mean(), too_slow(w) ? "  (too slow to help: no share)" : "",
                     w.slowdown > 1 ? fmt::format("  (emulated: slowed {:g}x)", w.slowdown) : ""));
  return out + transfers_text();
}

// Of each memory node that is no CPU worker's: what one of its mini-batches moved.
std::string Summary::transfers_text() const {
  std::map<int, double> minibatches_of;
  for (const WorkerSummary& w : workers)
    if (w.memory_node != 0) minibatches_of[w.memory_node] += static_cast<double>(w.minibatches);
  std::string out;
  for (const auto& [node, count] : minibatches_of) {
    if (count == 0) continue;
    double in = 0, back = 0;
    for (const Traffic& t : transfers) {
      if (t.to == node) in += static_cast<double>(t.bytes);
      if (t.from == node) back += static_cast<double>(t.bytes);
    }
    out += fmt::format("  memory node {}  {:.0f} bytes to it and {:.0f} back for each of its mini-batches\n", node,
                       in / count, back / count);
  }
  return out;
}

}  // namespace prorata
