// The picture of a comparison: gnuplot draws it from a script that is written here.
//
// A row of two panels for each experiment: samples/s of every rule as bars, with a line at the sum of the workers' own
// speeds, and beside them the test accuracies. The colours are Okabe and Ito's, which colour-blind eyes tell apart.
#pragma once

#include "driver/compare_summary.h"

#include <string>

namespace prorata {

// A script for gnuplot 5.4 that writes an SVG to `picture`.
std::string plot_script(const Comparison& comparison, const std::string& picture);

}  // namespace prorata
