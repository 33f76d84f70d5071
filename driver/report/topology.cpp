#include "driver/report/topology.h"

#include <hwloc.h>
#include <starpu.h>
#include <unistd.h>

#include <map>
#include <memory>

namespace prorata {
namespace {

using Json = nlohmann::ordered_json;

class Topology {
 public:
  Topology() {
    hwloc_topology_init(&topology_);
    hwloc_topology_load(topology_);
  }
  ~Topology() { hwloc_topology_destroy(topology_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  hwloc_topology_t get() const { return topology_; }
  int count(hwloc_obj_type_t type) const { return hwloc_get_nbobjs_by_type(topology_, type); }
  hwloc_obj_t unit(unsigned os_index) const { return hwloc_get_pu_obj_by_os_index(topology_, os_index); }

 private:
  hwloc_topology_t topology_;
};

int ancestor(const Topology& t, hwloc_obj_type_t type, hwloc_obj_t of) {
  const hwloc_obj_t found = hwloc_get_ancestor_obj_by_type(t.get(), type, of);
  return found ? static_cast<int>(found->logical_index) : -1;
}

int numa_of(const Topology& t, hwloc_obj_t unit) {
  for (int n = 0; n < t.count(HWLOC_OBJ_NUMANODE); ++n) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(t.get(), HWLOC_OBJ_NUMANODE, static_cast<unsigned>(n));
    if (hwloc_bitmap_intersects(node->cpuset, unit->cpuset)) return n;
  }
  return -1;
}

std::string kind_of(unsigned worker) {
  switch (starpu_worker_get_type(static_cast<int>(worker))) {
    case STARPU_CPU_WORKER: return "cpu";
    case STARPU_CUDA_WORKER: return "cuda";
    case STARPU_OPENCL_WORKER: return "opencl";
    default: return "other";
  }
}

std::string describe(const Topology& t, hwloc_obj_t object) {
  char type[64];
  char attributes[128];
  hwloc_obj_type_snprintf(type, sizeof(type), object, 0);
  hwloc_obj_attr_snprintf(attributes, sizeof(attributes), object, " ", 0);
  std::string text = std::string(type) + " " + std::to_string(object->logical_index);
  if (*attributes && object->type != HWLOC_OBJ_PU) text += " (" + std::string(attributes) + ")";
  (void)t;
  return text;
}

void draw(const Topology& t, hwloc_obj_t object, int depth, const std::multimap<int, WorkerPlace>& by_unit,
          std::string& out) {
  // Levels with nothing of their own to say only make the tree deep.
  const bool shown = object->type != HWLOC_OBJ_GROUP;
  if (shown) {
    out += std::string(static_cast<std::size_t>(2 * depth), ' ') + describe(t, object);
    if (object->type == HWLOC_OBJ_PU) {
      const auto [first, last] = by_unit.equal_range(static_cast<int>(object->logical_index));
      for (auto w = first; w != last; ++w)
        out += "  <- worker " + std::to_string(w->second.id) + " (" + w->second.name + ")";
    }
    out += "\n";
  }
  for (hwloc_obj_t memory = object->memory_first_child; memory; memory = memory->next_sibling)
    out += std::string(static_cast<std::size_t>(2 * (depth + 1)), ' ') + describe(t, memory) + "\n";
  for (unsigned i = 0; i < object->arity; ++i) draw(t, object->children[i], depth + (shown ? 1 : 0), by_unit, out);
}

}  // namespace

std::vector<WorkerPlace> worker_places() {
  const Topology t;
  std::vector<WorkerPlace> places;
  for (unsigned w = 0; w < starpu_worker_get_count(); ++w) {
    WorkerPlace place;
    place.id = static_cast<int>(w);
    char name[128];
    starpu_worker_get_name(place.id, name, sizeof(name));
    place.name = name;
    place.kind = kind_of(w);
    place.memory_node = static_cast<int>(starpu_worker_get_memory_node(w));
    if (hwloc_bitmap_t set = starpu_worker_get_hwloc_cpuset(place.id)) {
      const int os_index = hwloc_bitmap_weight(set) == 1 ? hwloc_bitmap_first(set) : -1;
      if (const hwloc_obj_t unit = os_index < 0 ? nullptr : t.unit(static_cast<unsigned>(os_index))) {
        place.processing_unit = static_cast<int>(unit->logical_index);
        place.core = ancestor(t, HWLOC_OBJ_CORE, unit);
        place.package = ancestor(t, HWLOC_OBJ_PACKAGE, unit);
        place.numa_node = numa_of(t, unit);
      }
      hwloc_bitmap_free(set);
    }
    places.push_back(std::move(place));
  }
  return places;
}

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::vector<unsigned> allowed_cores() {
  const Topology t;
  const hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (hwloc_get_cpubind(t.get(), allowed, HWLOC_CPUBIND_PROCESS) != 0) hwloc_bitmap_fill(allowed);
  std::vector<unsigned> cores;
  for (int c = 0; c < t.count(HWLOC_OBJ_CORE); ++c) {
    const hwloc_obj_t core = hwloc_get_obj_by_type(t.get(), HWLOC_OBJ_CORE, static_cast<unsigned>(c));
    if (!hwloc_bitmap_intersects(core->cpuset, allowed)) continue;
    const hwloc_obj_t unit = hwloc_get_obj_inside_cpuset_by_type(t.get(), core->cpuset, HWLOC_OBJ_PU, 0);
    if (unit) cores.push_back(unit->logical_index);
  }
  hwloc_bitmap_free(allowed);
  return cores;
}

std::string cpu_name() {
  const Topology t;
  const hwloc_obj_t package = hwloc_get_obj_by_type(t.get(), HWLOC_OBJ_PACKAGE, 0);
  const char* name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
  if (!name) name = hwloc_obj_get_info_by_name(hwloc_get_root_obj(t.get()), "CPUModel");
  return name ? name : "unknown";
}

bool cores_are_unlike() {
  const Topology t;
  return hwloc_cpukinds_get_nr(t.get(), 0) > 1;
}

Json host_json() {
  const Topology t;
  Json caches = Json::array();
  for (const auto type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE}) {
    const int n = t.count(type);
    if (n <= 0) continue;
    const hwloc_obj_t first = hwloc_get_obj_by_type(t.get(), type, 0);
    caches.push_back({{"level", first->attr->cache.depth}, {"count", n}, {"bytes", first->attr->cache.size}});
  }
  const hwloc_obj_t root = hwloc_get_root_obj(t.get());
  return {{"name", host_name()},
          {"cpu", cpu_name()},
          {"cores", t.count(HWLOC_OBJ_CORE)},
          {"processing_units", t.count(HWLOC_OBJ_PU)},
          {"packages", t.count(HWLOC_OBJ_PACKAGE)},
          {"numa_nodes", t.count(HWLOC_OBJ_NUMANODE)},
          {"memory_bytes", root->total_memory},
          {"caches", std::move(caches)}};
}

std::string topology_text() {
  const Topology t;
  std::multimap<int, WorkerPlace> by_unit;
  for (const WorkerPlace& place : worker_places()) by_unit.emplace(place.processing_unit, place);
  std::string out;
  draw(t, hwloc_get_root_obj(t.get()), 0, by_unit, out);
  return out;
}

}  // namespace prorata
