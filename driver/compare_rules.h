// What `prorata compare` compares: one rule is one way of dealing the mini-batches of a training.
#pragma once

#include <string>
#include <vector>

namespace prorata {

struct Rule {
  std::string label;
  std::string scheduler;       // STARPU_SCHED
  std::string balance, share;  // options of `train`; empty where the scheduler is one of StarPU's
};

// Under our policy: every balance that `train` knows, the one in proportion to speed with every share that it knows.
std::vector<Rule> our_rules();

// StarPU's own policies, all that this StarPU has.
std::vector<Rule> starpu_rules();
// Of these, the ones that are compared unless others are asked for.
std::vector<Rule> usual_starpu_rules();

std::vector<std::string> labels(const std::vector<Rule>& rules);

// The rules of `all` that `wanted` names, in its order and each once; "none" names none.
std::vector<Rule> choose(const std::vector<Rule>& all, const std::vector<std::string>& wanted);

}  // namespace prorata
