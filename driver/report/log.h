// What the program says of itself, on standard error. Results go to standard output instead.
#pragma once

#include <string>

namespace prorata {

enum class LogLevel { quiet, normal, verbose };  // quiet: warnings and errors only

void set_log_level(LogLevel level);
void log_info(const std::string& text);
void log_warning(const std::string& text);
void log_error(const std::string& text);

}  // namespace prorata
