// Options from a TOML file, `--config FILE`: each key is the name of a long option without its dashes, at the top level
// or in a table named like the subcommand; an option that takes several values takes an array, too. What the command
// line says wins.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>

namespace prorata {

// Gives the subcommand's options that the command line left open the values of the file. InputError names file, line
// and expectation. Call after the command line was parsed.
void apply_config_file(CLI::App& subcommand, const std::filesystem::path& file);

}  // namespace prorata
