// Going on with a run: the options that it was begun with hold on, and those that its result depends on may not change.
#pragma once

#include "driver/checkpoint.h"
#include "driver/data/dataset.h"
#include "driver/options.h"
#include "driver/report/summary.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace prorata {

// What state.json says of how a run was begun.
//   options     as they were given, by name: they hold on where a resumed run's command line says nothing
//   settings    by option: what the run's result depends on. null: nobody said it, and it follows from the workers
// InputError where an option is not UTF-8, which JSON is.
nlohmann::json beginnings(const CLI::App& subcommand, const TrainOptions& options, const Summary& summary,
                          const Dataset& data);

// Gives `subcommand` the options that the run was begun with where the command line says nothing. InputError where the
// checkpoint's options are not ones.
void take_options(CLI::App& subcommand, const Checkpoint& checkpoint);

// InputError names each setting that is not what the run was begun with, and both values.
void refuse_changes(const nlohmann::json& now, const Checkpoint& checkpoint);

// The text of the network's file: the checkpoint's, or else that of `model`, with what this leaves to the data set.
// InputError: both are there, `model` was given, and they differ.
std::string network_text(const std::optional<Checkpoint>& checkpoint, const CLI::App& subcommand,
                         const std::string& model, const Dataset& data);

}  // namespace prorata
