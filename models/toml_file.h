// Reading TOML with errors in our form: file, line, what is expected.
#pragma once

#include "models/errors.h"

#include <filesystem>
#include <string>
#include <toml.hpp>

namespace prorata {

// InputError: no such file, or not TOML.
inline toml::value parse_toml(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file))
    throw InputError(file.string() + ": no such file; a TOML file is expected");
  try {
    return toml::parse(file.string());
  } catch (const toml::syntax_error& e) {
    // toml11 draws the place over several lines; the first one is the sentence.
    std::string message = e.what();
    message = message.substr(0, message.find('\n'));
    if (const auto tag = message.find("[error] "); tag != std::string::npos) message = message.substr(tag + 8);
    throw InputError(file.string() + ":" + std::to_string(e.location().line()) + ": not TOML: " + message);
  } catch (const std::exception& e) {
    throw InputError(file.string() + ": cannot be read as TOML: " + e.what());
  }
}

[[noreturn]] inline void fail_at(const std::filesystem::path& file, const toml::value& at,
                                 const std::string& sentence) {
  throw InputError(file.string() + ":" + std::to_string(at.location().line()) + ": " + sentence);
}

}  // namespace prorata
