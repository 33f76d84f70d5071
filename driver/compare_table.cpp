// The table of `prorata compare` for a person.
#include "driver/compare_summary.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string_view>

namespace prorata {
namespace {

using Cells = std::vector<std::string>;

std::string with_commas(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string ratio(const std::optional<double>& value, std::string_view unit = "") {
  return value ? fmt::format("{:.2f}{}", *value, unit) : "-";
}

Cells header(const ExperimentSummary& e) {
  Cells cells{"rule", "samples/s", "spread", "accuracy (min - max)", "staleness", "of sum", "to uniform", "of ceiling"};
  for (const auto& row : e.rows)
    if (row.measured()) {
      for (const auto& [label, value] : row.ours_to_it) cells.push_back(label + " to it");
      break;
    }
  return cells;
}

Cells cells_of(const ComparisonRow& r) {
  if (!r.measured()) return {r.label, "failed"};
  Cells cells{r.label,
              with_commas(r.samples_per_second),
              fmt::format("{:.0f} %", 100 * r.spread()),
              fmt::format("{:.4f} ({:.4f} - {:.4f})", r.accuracy_mean, r.accuracy_min, r.accuracy_max),
              fmt::format("{:.2f} / {:.0f}", r.slowest_staleness_mean, r.slowest_staleness_p95),
              ratio(r.to_sum),
              ratio(r.to_uniform, "x"),
              r.alone ? "-" : ratio(r.to_ceiling)};
  for (const auto& [label, value] : r.ours_to_it) cells.push_back(ratio(value, "x"));
  return cells;
}

// The first column to the left, the others to the right.
std::string aligned(const std::vector<Cells>& table) {
  std::vector<std::size_t> widths;
  for (const Cells& row : table)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string out;
  for (const Cells& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i)
      out += i == 0 ? fmt::format("  {:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    out += "\n";
  }
  return out;
}

std::string block(const ExperimentSummary& e) {
  std::string out = "\n" + describe_slowdown(e.slowdown);
  if (e.sum_of_speeds)
    out += fmt::format(": the workers' own speeds add up to {} samples/s, the ceiling of the gain over uniform is {}x",
                       with_commas(*e.sum_of_speeds), ratio(e.ceiling));
  out += "\n";
  std::vector<Cells> table{header(e)};
  for (const ComparisonRow& r : e.rows) table.push_back(cells_of(r));
  out += aligned(table);
  for (const ComparisonRow& r : e.rows)
    if (r.failed > 0) out += fmt::format("  {} failed {} of {} times: {}\n", r.label, r.failed, r.runs, r.error);
  return out;
}

}  // namespace

std::string describe_slowdown(const std::string& slowdown) {
  if (slowdown == "none") return "no worker slowed";
  std::string out;
  for (std::string_view rest = slowdown; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::size_t colon = one.find(':');
    out += fmt::format("{}worker {} slowed {}x", out.empty() ? "" : ", ", one.substr(0, colon), one.substr(colon + 1));
  }
  return out;
}

std::string title(const Comparison& c) {
  if (c.training.is_null()) return "no run succeeded";
  return fmt::format("{} on {}, {} epoch(s), batch {}", c.training.value("model", ""), c.training.value("dataset", ""),
                     c.training.value("epochs_wanted", 0), c.training.value("batch", 0));
}

std::string text(const Comparison& c) {
  std::string out = fmt::format("{}; {} workers; medians of {} runs in turns{}\n", title(c), c.workers, c.repeats,
                                c.stopped_by.empty() ? "" : ", stopped early by " + c.stopped_by);
  for (const ExperimentSummary& e : summarize(c)) out += block(e);
  out +=
      "\nspread: (most - least) / median.  staleness: mean / 95th percentile of the slowest worker's.\n"
      "of sum: samples/s by the sum of the workers' own speeds.  of ceiling: the gain over uniform by its ceiling.\n"
      "Ratios are medians of those within a repetition; the accuracy is the mean over the runs.\n";
  return out;
}

}  // namespace prorata
