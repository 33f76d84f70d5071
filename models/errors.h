// Errors that a user can act on. Each message is a sentence: what is wrong, where, what to do.
// driver/main.cpp alone turns them into exit codes.
#pragma once

#include <stdexcept>

namespace prorata {

// Wrong usage, or a file that is missing or malformed: exit code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace prorata
