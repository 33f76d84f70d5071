#include "driver/config_file.h"

#include "models/toml_file.h"

namespace prorata {
namespace {

std::string as_text(const std::filesystem::path& file, const toml::value& v) {
  switch (v.type()) {
    case toml::value_t::string: return v.as_string().str;
    case toml::value_t::boolean: return v.as_boolean() ? "true" : "false";
    case toml::value_t::integer: return std::to_string(v.as_integer());
    case toml::value_t::floating: return toml::format(v);
    default: fail_at(file, v, "a string, a number or true/false is expected");
  }
}

void apply(CLI::App& subcommand, const std::filesystem::path& file, const std::string& key, const toml::value& v) {
  CLI::Option* option = key == "config" || key == "help" ? nullptr : subcommand.get_option_no_throw("--" + key);
  if (!option) fail_at(file, v, "'prorata " + subcommand.get_name() + "' has no option --" + key);
  if (option->count() > 0) return;  // given on the command line
  try {
    const bool list = v.is_array() && option->get_items_expected_max() > 1;
    for (const toml::value& one : list ? v.as_array() : toml::array{v}) option->add_result(as_text(file, one));
    option->run_callback();
  } catch (const CLI::Error& e) {
    fail_at(file, v, e.what());
  }
}

}  // namespace

void apply_config_file(CLI::App& subcommand, const std::filesystem::path& file) {
  const toml::value root = parse_toml(file);
  for (const auto& [key, v] : root.as_table()) {
    if (!v.is_table()) {
      apply(subcommand, file, key, v);
    } else if (key == subcommand.get_name()) {
      for (const auto& [inner, value] : v.as_table()) apply(subcommand, file, inner, value);
    }  // a table of another subcommand is not for us
  }
}

}  // namespace prorata
