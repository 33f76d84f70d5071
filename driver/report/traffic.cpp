#include "driver/report/traffic.h"

#include <starpu.h>

#include <algorithm>

namespace prorata {

std::vector<Traffic> take_traffic() {
  std::vector<Traffic> all;
  for (int bus = 0; bus < starpu_bus_get_count(); ++bus) {
    starpu_profiling_bus_info info{};
    starpu_bus_get_profiling_info(bus, &info);  // and begins to count anew
    all.push_back({starpu_bus_get_src(bus), starpu_bus_get_dst(bus), static_cast<std::uint64_t>(info.transferred_bytes),
                   static_cast<std::uint64_t>(info.transfer_count)});
  }
  return all;
}

void add_traffic(std::vector<Traffic>& sum, const std::vector<Traffic>& more) {
  for (const Traffic& t : more) {
    const auto same = std::find_if(sum.begin(), sum.end(), [&](auto& s) { return s.from == t.from && s.to == t.to; });
    if (same == sum.end()) {
      sum.push_back(t);
    } else {
      same->bytes += t.bytes;
      same->transfers += t.transfers;
    }
  }
}

}  // namespace prorata
