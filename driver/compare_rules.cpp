#include "driver/compare_rules.h"

#include "driver/options.h"
#include "driver/runtime.h"
#include "scheduler/prorata.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace prorata {
namespace {

// Those whose way of choosing differs. StarPU has more (parts to build policies of, tests, policies of parallel tasks).
constexpr std::string_view kUsual[] = {"eager", "prio", "random", "lws", "ws", "dm", "dmda", "dmdas", "heteroprio"};

}  // namespace

std::vector<Rule> our_rules() {
  const std::string scheduler = starpu_prorata_policy.policy_name;
  const std::vector<std::string> shares = share_names();
  std::vector<Rule> rules;
  for (const std::string& balance : balance_names())
    if (balance == to_string(PRORATA_PRORATA))
      for (const std::string& share : shares) rules.push_back({balance + "-" + share, scheduler, balance, share});
    else  // shares that are not in proportion to anything
      rules.push_back({balance, scheduler, balance, shares.front()});
  return rules;
}

std::vector<Rule> starpu_rules() {
  std::vector<Rule> rules;
  for (const auto& [name, description] : scheduling_policies())
    if (name != starpu_prorata_policy.policy_name) rules.push_back({name, name, "", ""});
  return rules;
}

std::vector<Rule> usual_starpu_rules() {
  const std::vector<Rule> all = starpu_rules();
  std::vector<Rule> usual;
  for (const std::string_view name : kUsual)
    std::copy_if(all.begin(), all.end(), std::back_inserter(usual), [&](const Rule& r) { return r.label == name; });
  return usual;
}

std::vector<std::string> labels(const std::vector<Rule>& rules) {
  std::vector<std::string> names;
  for (const Rule& r : rules) names.push_back(r.label);
  return names;
}

std::vector<Rule> choose(const std::vector<Rule>& all, const std::vector<std::string>& wanted) {
  std::vector<Rule> chosen;
  for (const std::string& name : wanted)
    for (const Rule& r : all)
      if (r.label == name && std::none_of(chosen.begin(), chosen.end(), [&](auto& c) { return c.label == name; }))
        chosen.push_back(r);
  return chosen;
}

}  // namespace prorata
