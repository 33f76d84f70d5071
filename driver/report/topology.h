// The machine as hwloc sees it, and where StarPU's workers sit on it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace prorata {

struct WorkerPlace {
  int id;
  std::string name;
  std::string kind;  // cpu, cuda, opencl, other
  int memory_node;
  // By hwloc's logical numbers; -1: not bound to one.
  int package = -1, numa_node = -1, core = -1, processing_unit = -1;
};

// StarPU must be running.
std::vector<WorkerPlace> worker_places();

// The processor's name, or "unknown".
std::string cpu_name();
std::string host_name();
// The cores that this process may run on, each by the logical number of its first processing unit.
std::vector<unsigned> allowed_cores();
// Whether the machine says of itself that its cores are unlike.
bool cores_are_unlike();

// name, cpu, cores, processing units, memory, packages, caches, NUMA nodes.
nlohmann::ordered_json host_json();

// The tree of packages, NUMA nodes, caches and cores, for a person, with the workers at their cores.
std::string topology_text();

}  // namespace prorata
