#include "driver/compare_plot.h"

#include "driver/options.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace prorata {
namespace {

// Pixels.
constexpr double kWidth = 1000, kTop = 84, kBar = 20, kAxis = 58, kRowTitle = 34, kBottom = 8;
// Fractions of the width.
constexpr double kNames = 0.135, kSpeedsEnd = 0.70, kAccuracies = 0.745, kRightEnd = 0.975;

struct Kind {
  const char* colour;
  const char* name;
};
constexpr Kind kAlone{"#999999", "one worker alone"};
constexpr Kind kProportion{"#0072B2", "in proportion to speed"};
constexpr Kind kOther{"#56B4E9", "our policy's baselines"};
constexpr Kind kStarpu{"#E69F00", "StarPU's policies"};

const Kind& kind_of(const ComparisonRow& row) {
  if (row.alone) return kAlone;
  if (!row.ours) return kStarpu;
  return std::any_of(row.ours_to_it.begin(), row.ours_to_it.end(), [&](auto& o) { return o.first == row.label; })
             ? kProportion
             : kOther;
}

// As gnuplot reads it.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

// The distance of about `wanted` marks over `span`: 1, 2 or 5 times a power of ten.
double step_of(double span, double wanted) {
  const double power = std::pow(10, std::floor(std::log10(span / wanted)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= span / wanted) return factor * power;
  return 10 * power;
}

struct Limits {
  double speed = 0, accuracy_min = 1, accuracy_max = 0;
};
Limits limits_of(const std::vector<ExperimentSummary>& experiments) {
  Limits l;
  for (const ExperimentSummary& e : experiments) {
    l.speed = std::max(l.speed, e.sum_of_speeds.value_or(0));
    for (const ComparisonRow& r : e.rows) {
      if (!r.measured()) continue;
      l.speed = std::max(l.speed, r.fastest_run);
      l.accuracy_min = std::min(l.accuracy_min, r.accuracy_min);
      l.accuracy_max = std::max(l.accuracy_max, r.accuracy_max);
    }
  }
  const double margin = std::max(0.002, 0.08 * (l.accuracy_max - l.accuracy_min));
  l.accuracy_min = std::max(0.0, l.accuracy_min - margin);
  l.accuracy_max = std::min(1.0, l.accuracy_max + margin);
  return l;
}

// Columns: 1 row, 2-4 samples/s (median, least, most), 5-7 accuracy (mean, least, most), 8 colour, 9 what stands at the
// bar.
std::string data(const std::string& name, const ExperimentSummary& e) {
  std::string out = name + " << EOD\n";
  for (std::size_t i = 0; i < e.rows.size(); ++i) {
    const ComparisonRow& r = e.rows[i];
    if (!r.measured()) continue;
    const long colour = std::strtol(kind_of(r).colour + 1, nullptr, 16);
    out += fmt::format("{} {} {} {} {} {} {} {} \"{:.0f}{}\"\n", i, r.samples_per_second, r.slowest_run, r.fastest_run,
                       r.accuracy_mean, r.accuracy_min, r.accuracy_max, colour, r.samples_per_second,
                       r.to_sum && !r.alone ? fmt::format("  ({:.2f} of the sum)", *r.to_sum) : "");
  }
  return out + "EOD\n";
}

// Marks of the rows: their names, or nothing.
std::string marks(const ExperimentSummary& e, bool named) {
  std::string out;
  for (std::size_t i = 0; i < e.rows.size(); ++i)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", quoted(named ? e.rows[i].label : ""), i);
  return out;
}

// A panel of its own, without axes, as wide as the picture: beside a panel of data it would have to wrap.
std::string legend(double middle) {
  std::string out = fmt::format(
      "set lmargin at screen 0.01\nset rmargin at screen 0.99\nset tmargin at screen {0:.5f}\nset bmargin at screen "
      "{1:.5f}\nunset border\nunset tics\nset xrange [0:1]\nset yrange [0:1]\n"
      "set key center center horizontal maxrows 1 samplen 1.5 font ',11'\nplot NaN notitle, ",
      middle + 0.01, middle - 0.01);
  for (const Kind& k : {kProportion, kOther, kStarpu, kAlone})
    out += fmt::format("keyentry with boxes fs solid lc rgb '{}' title {}, ", k.colour, quoted(k.name));
  return out + "keyentry with lines dt 2 lw 2 lc rgb 'black' title " + quoted("sum of the workers' own speeds") +
         "\nset key off\nunset label\n";
}

// One experiment, from `top` to `bottom`, fractions of the height.
std::string panels(const ExperimentSummary& e, std::size_t number, const Limits& limits, double top, double bottom) {
  const std::string block = fmt::format("$experiment{}", number);
  std::string out = data(block, e);
  out += fmt::format("set tmargin at screen {:.5f}\nset bmargin at screen {:.5f}\n", top, bottom);
  out += fmt::format("set yrange [{}:-0.6]\n", static_cast<double>(e.rows.size()) - 0.4);

  out += fmt::format("set lmargin at screen {}\nset rmargin at screen {}\n", kNames, kSpeedsEnd);
  out += fmt::format("set title {} offset 0,-0.6\nset xlabel 'samples/s (median; whiskers: least and most)'\n",
                     quoted(describe_slowdown(e.slowdown)));
  out += fmt::format("set xrange [0:{}]\nset xtics nomirror {} format '%.0f'\nset ytics nomirror ({})\n",
                     1.35 * limits.speed, step_of(limits.speed, 6), marks(e, true));
  int failed = 0;
  for (std::size_t i = 0; i < e.rows.size(); ++i)
    if (!e.rows[i].measured()) out += fmt::format("set label {} ' failed' at 0,{} left\n", 10 + failed++, i);
  if (e.sum_of_speeds)
    out += fmt::format("set arrow 1 from {0},graph 0 to {0},graph 1 nohead front dt 2 lw 2 lc rgb 'black'\n",
                       *e.sum_of_speeds);
  out += fmt::format(
      "plot {0} using ($2/2):1:(0):2:($1-0.36):($1+0.36):8 with boxxyerror fs solid lc rgb variable notitle"
      ", {0} using 2:1:3:4 with xerrorbars pt -1 lw 1 lc rgb 'black' notitle"
      ", {0} using ({1}):1:9 with labels left offset 0.7,0 font ',10' notitle",
      block, limits.speed);
  out += "\nunset arrow 1\nunset label\n";

  out += fmt::format("set lmargin at screen {}\nset rmargin at screen {}\n", kAccuracies, kRightEnd);
  out += "set title ' '\nset xlabel 'test accuracy (mean; least and most)'\n";
  out += fmt::format("set xrange [{}:{}]\nset xtics nomirror {} format '%g'\nset ytics nomirror ({})\n",
                     limits.accuracy_min, limits.accuracy_max, step_of(limits.accuracy_max - limits.accuracy_min, 4),
                     marks(e, false));
  out += fmt::format("plot {} using 5:1:6:7:8 with xerrorbars pt 7 ps 0.7 lw 1.5 lc rgb variable notitle\n", block);
  return out;
}

}  // namespace

std::string plot_script(const Comparison& c, const std::string& picture) {
  const std::vector<ExperimentSummary> experiments = summarize(c);
  double height = kTop + kBottom;
  for (const ExperimentSummary& e : experiments)
    height += kRowTitle + kAxis + kBar * static_cast<double>(e.rows.size());
  std::string out = fmt::format(
      "# gnuplot 5.4\n"
      "set terminal svg noenhanced size {:.0f},{:.0f} font 'DejaVu Sans,Helvetica,Arial,sans-serif,12' "
      "background rgb 'white'\n"
      "set output {}\nset multiplot\n"
      "set label 1 {} at screen 0.5,screen {:.5f} center font ',15'\n",
      kWidth, height, quoted(picture),
      quoted(fmt::format("{}, {} workers, {} run(s) of each", title(c), c.workers, c.repeats)), 1 - 22 / height);
  out += legend(1 - 56 / height);
  out += "set border 3 lc rgb '#444444'\nset tics nomirror scale 0.5\nset grid xtics lc rgb '#dddddd' lt 1\n";
  const Limits limits = limits_of(experiments);
  double y = kTop;
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    const double top = y + kRowTitle;
    const double bottom = top + kBar * static_cast<double>(experiments[i].rows.size());
    out += panels(experiments[i], i, limits, 1 - top / height, 1 - bottom / height);
    y = bottom + kAxis;
  }
  return out + "unset multiplot\n";
}

}  // namespace prorata
