// What every reader refuses: labels that no class has.
#pragma once

#include "models/errors.h"

#include <cstdint>
#include <string>

namespace prorata {

// `where`: a function that says file and place, as a sentence begins.
template <class Where>
std::int32_t checked_label(std::int64_t label, std::int32_t classes, const Where& where) {
  if (label < 0 || label >= classes)
    throw InputError(where() + ": the label is " + std::to_string(label) + ", but labels from 0 to " +
                     std::to_string(classes - 1) + " are expected");
  return static_cast<std::int32_t>(label);
}

}  // namespace prorata
