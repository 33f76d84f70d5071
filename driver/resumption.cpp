#include "driver/resumption.h"

#include "models/errors.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace prorata {
namespace fs = std::filesystem;
using nlohmann::json;
namespace {

// Of one call, or kept in another way.
constexpr const char* kNotKept[] = {"config", "json", "quiet", "verbose", "out",     "overwrite",
                                    "resume", "init", "model", "help",    "progress"};

// They may change from one part of a run to the next.
constexpr const char* kHarmless[] = {"balance",      "replicas",         "slowdown",        "exchange-period",
                                     "rank-timeout", "checkpoint-every", "keep-checkpoints"};

template <std::size_t n>
bool is_one_of(const char* const (&names)[n], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? std::string() : option.get_lnames().front();
}

json given_options(const CLI::App& subcommand, const TrainOptions& o, const Summary& s) {
  json options = json::object();
  for (const CLI::Option* option : subcommand.get_options()) {
    const std::string name = name_of(*option);
    if (option->count() > 0 && !is_one_of(kNotKept, name)) options[name] = option->results();
  }
  // A resumed run may have another working folder, other workers, other epochs.
  if (o.data.data) options["data"] = {fs::absolute(*o.data.data).string()};
  if (o.consistency == Consistency::bsp && o.share == PRORATA_COUNT) options["round"] = {std::to_string(s.replicas)};
  options["lr-warmup"] = {std::to_string(s.lr_warmup)};
  return options;
}

// Of all labels, and of parts of the images: a set may be larger than memory, and where one is another, so are these.
uLong checksum(const Samples& samples) {
  constexpr std::size_t kParts = 64, kPart = std::size_t{1} << 20;
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(samples.labels.data()),
                      samples.labels.size() * sizeof(samples.labels.front()));
  const auto* images = static_cast<const Bytef*>(samples.images.data());
  const std::size_t bytes = samples.images.bytes(), step = std::max(kPart, bytes / kParts);
  for (std::size_t at = 0; at < bytes; at += step) crc = crc32_z(crc, images + at, std::min(kPart, bytes - at));
  return crc;
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw InputError(file.string() + ": cannot be read");
  return text.str();
}

std::string settled_text(const fs::path& file, const Dataset& data) {
  const NetworkSpec spec = read_network_spec(file);
  std::string text;
  if (spec.any_input) text += "input = " + to_string(data.shape) + "  # the data set's\n";
  if (spec.any_classes) text += "classes = " + std::to_string(data.classes) + "\n";
  return text + text_of(file);
}

std::string said(const json& value) { return value.is_null() ? "not given" : value.dump(); }

}  // namespace

json beginnings(const CLI::App& subcommand, const TrainOptions& o, const Summary& s, const Dataset& data) {
  const UpdateRule& rule = s.rule;
  const bool synchronous = o.consistency == Consistency::bsp, in_steps = rule.lr_schedule == LrSchedule::step;
  json settings = {{"dataset", data.name},
                   {"data",
                    std::to_string(data.train.size()) + " samples, crc32 " + std::to_string(checksum(data.train))},
                   {"seed", o.seed},
                   {"batch", s.micro_batch()},
                   {"accumulate", s.accumulate},
                   {"optimizer", to_string(rule.optimizer.kind)},
                   {"lr", rule.learning_rate},
                   {"lr-schedule", to_string(rule.lr_schedule)},
                   {"lr-step-epochs", in_steps ? json(rule.lr_step_epochs) : json()},
                   {"lr-gamma", in_steps ? json(rule.lr_gamma) : json()},
                   {"lr-warmup", s.lr_warmup},
                   {"momentum", rule.momentum},
                   {"nesterov", rule.optimizer.nesterov},
                   {"beta1", rule.optimizer.beta1},
                   {"beta2", rule.optimizer.beta2},
                   {"eps", rule.optimizer.epsilon},
                   {"weight-decay", rule.weight_decay},
                   {"clip-norm", rule.optimizer.clip_norm > 0 ? json(rule.optimizer.clip_norm) : json()},
                   {"share", s.share},
                   {"consistency", s.consistency},
                   {"staleness", or_null(o.staleness)},
                   {"staleness-aware-lr", o.staleness_aware_lr},
                   {"delay-compensation", o.delay_compensation},
                   {"dana", or_null(o.dana)},
                   {"momentum-correction", o.momentum_correction},
                   {"deterministic", or_null(o.deterministic)},
                   {"tf32", o.tf32},
                   {"round", synchronous && o.share == PRORATA_COUNT ? json(s.replicas) : json()},
                   {"epochs", depends_on_total(rule.lr_schedule) ? json(s.epochs_wanted) : json()}};
  // Whatever else there is counts as changing the result until it is listed above.
  for (const CLI::Option* option : subcommand.get_options())
    if (const std::string name = name_of(*option);
        !settings.contains(name) && !is_one_of(kNotKept, name) && !is_one_of(kHarmless, name))
      settings[name] = option->count() > 0 ? json(option->results()) : json();
  json base = {{"version", s.json().at("version")},
               {"options", given_options(subcommand, o, s)},
               {"settings", std::move(settings)}};
  try {
    base.dump();
    s.json().dump();
  } catch (const json::type_error&) {  // of what JSON cannot hold there is this only
    throw InputError("a path among the options is not UTF-8, and so cannot be kept in the run's files; rename it");
  }
  return base;
}

void take_options(CLI::App& subcommand, const Checkpoint& checkpoint) {
  try {
    for (const auto& [name, values] : checkpoint.state.at("options").items()) {
      CLI::Option* option = subcommand.get_option_no_throw("--" + name);
      if (!option) throw InputError("there is no option --" + name);
      if (option->count() > 0) continue;
      for (const json& value : values) option->add_result(value.get<std::string>());
      option->run_callback();
    }
  } catch (const std::exception& e) {  // of CLI11, of the JSON, or the one above
    throw InputError(checkpoint.state_file().string() + ": its options cannot be taken: " + e.what());
  }
}

void refuse_changes(const json& now, const Checkpoint& checkpoint) {
  const json before = checkpoint.state.value("settings", json());
  std::string changes;
  for (const auto& [name, value] : now.at("settings").items()) {
    const json was = before.is_object() ? before.value(name, json()) : json();
    if (was != value)
      changes += (changes.empty() ? "--" : ", --") + name + " is " + said(value) + " and was " + said(was);
  }
  if (changes.empty()) return;
  throw InputError(checkpoint.folder.string() + ": a run goes on only as it was begun, but " + changes +
                   ". Leave these options out; or begin a new run from its parameters: --init " +
                   checkpoint.parameters().string());
}

std::string network_text(const std::optional<Checkpoint>& checkpoint, const CLI::App& subcommand,
                         const std::string& model, const Dataset& data) {
  if (!checkpoint) return settled_text(find_network(model), data);
  std::string text = text_of(checkpoint->network());
  if (subcommand.get_option("--model")->count() > 0 && settled_text(find_network(model), data) != text)
    throw InputError("--model " + model + " is not the network that the run was begun with, which is in " +
                     checkpoint->network().string() + "; leave --model out");
  return text;
}

}  // namespace prorata
