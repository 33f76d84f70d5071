#include "driver/report/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace prorata {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> own = [] {
    auto made = std::make_shared<spdlog::logger>("prorata", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    return made;
  }();
  return *own;
}

}  // namespace

void set_log_level(LogLevel level) {
  logger().set_level(level == LogLevel::quiet ? spdlog::level::warn : spdlog::level::info);
}

void log_info(const std::string& text) { logger().info(text); }
void log_warning(const std::string& text) { logger().warn("prorata: warning: " + text); }
void log_error(const std::string& text) { logger().error("prorata: " + text); }

}  // namespace prorata
