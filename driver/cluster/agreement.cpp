#include "driver/cluster/agreement.h"

#include <zlib.h>

#include <fstream>
#include <sstream>

namespace prorata {
namespace {

std::string checksum(const std::string& text) {
  return "crc32 " + std::to_string(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

std::string own_program() {
  std::ostringstream text;
  text << std::ifstream("/proc/self/exe", std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

void must_agree(const Job& job, const nlohmann::json& base, const TrainOptions& o, int epochs,
                const std::string& network_text) {
  if (job.alone()) return;
  std::vector<std::pair<std::string, std::string>> settings{
      {"version", base.at("version").dump()},
      {"a program with", checksum(own_program())},
      {"a --model with", checksum(network_text)},
      {"--epochs", std::to_string(epochs)},
      {"--balance", to_string(o.balance)},
      {"--exchange-period", std::to_string(o.exchange_period)},
      {"--elastic", o.elastic ? std::to_string(*o.elastic) : "none"},
      {"--exchange-format", to_string(o.exchange_format)},
      {"--exchange-weight", o.exchange_weight ? std::to_string(*o.exchange_weight) : "none"},
      {"--checkpoint-every", o.checkpoint_every ? std::to_string(*o.checkpoint_every) : "epoch"},
      {"--resume", o.resume ? "given" : "not given"}};
  const nlohmann::json& of_result = base.at("settings");
  for (const auto& [name, value] : of_result.items())
    if (name != "round" && name != "data")  // the first one's default is the rank's workers
      settings.emplace_back("--" + name, value.dump());
  settings.emplace_back("--data with", of_result.at("data").dump());  // last: they are others with another seed, too
  job.must_agree(settings);
}

}  // namespace prorata
