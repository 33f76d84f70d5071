// The table of operations, as tests of single ones look things up in it.
#pragma once

#include "codelets/selftest/implementations.h"
#include "codelets/selftest/operations.h"

#include <limits>
#include <stdexcept>
#include <vector>

namespace prorata::selftest {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline const Operation& operation(const Codelet& codelet) {
  for (const Operation& op : operations())
    if (op.codelet == &codelet) return op;
  throw std::logic_error("no entry for codelet " + codelet.name());
}

// Those that can run here.
inline std::vector<Implementation> present(const Codelet& codelet) {
  std::vector<Implementation> all = implementations_of(codelet);
  std::erase_if(all, [](const Implementation& i) { return !i.missing.empty(); });
  return all;
}

}  // namespace prorata::selftest
