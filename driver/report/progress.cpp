#include "driver/report/progress.h"

#include "driver/report/log.h"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace prorata {
namespace {

constexpr double kSecondsBetweenLines = 10;
constexpr std::size_t kMostShares = 8;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 120;
}

std::string bar(double fraction) {
  constexpr int width = 20;
  const int done = static_cast<int>(fraction * width);
  return std::string(static_cast<std::size_t>(done), '#') + std::string(static_cast<std::size_t>(width - done), '.');
}

std::string describe(const ProgressState& s) {
  std::string shares;
  for (std::size_t i = 0; i < s.shares.size() && i < kMostShares; ++i)
    shares += (i ? ":" : "") + fmt::format("{:.0f}", 100 * s.shares[i]);
  if (s.shares.size() > kMostShares) shares += ":...";
  return fmt::format("epoch {}/{}  {}/{}  loss {:.3f}  acc {:.3f}  {:.0f} samples/s  staleness {:.2f}  shares {}",
                     s.epoch, s.epochs, s.minibatches, s.minibatches_of_epoch, s.loss, s.accuracy, s.samples_per_second,
                     s.staleness, shares);
}

}  // namespace

Progress::Mode Progress::choose(const std::string& option, bool quiet) {
  if (option == "off" || (quiet && option == "auto")) return Mode::off;
  if (option == "on" || isatty(STDERR_FILENO)) return Mode::live;
  return Mode::lines;
}

void Progress::show(const ProgressState& s) {
  if (mode_ == Mode::off) return;
  if (mode_ == Mode::lines) {
    if (next_line_ == 0) next_line_ = now() + kSecondsBetweenLines;
    if (now() < next_line_) return;
    next_line_ = now() + kSecondsBetweenLines;
    log_info(describe(s));
    return;
  }
  const double fraction =
      s.minibatches_of_epoch ? static_cast<double>(s.minibatches) / static_cast<double>(s.minibatches_of_epoch) : 0;
  const std::string line = ("[" + bar(fraction) + "] " + describe(s)).substr(0, terminal_width() - 1);
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace prorata
