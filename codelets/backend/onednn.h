// What the oneDNN implementations share: the engine, and primitives that are created once per shape.
//
// Threads. A primitive with its memory objects serves one thread; each worker therefore keeps its own
// (thread_local) cache, which also makes the look-up free of locks. Primitives of one shape cost some
// kilobytes of generated code, shared inside oneDNN between threads.
#pragma once

#include <cstring>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <unordered_map>

namespace prorata::onednn {

inline const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

inline dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

inline dnnl::memory memory_at(const dnnl::memory::desc& desc, const void* data) {
  return {desc, engine(), const_cast<void*>(data)};
}

inline dnnl::memory::desc plain(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

// The calling thread's primitive of type P for `shape`, made by P(shape) at the first use.
template <class P, class Shape>
P& cached(const Shape& shape) {
  struct Hash {
    std::size_t operator()(const Shape& s) const {
      return std::hash<std::string_view>()({reinterpret_cast<const char*>(&s), sizeof(s)});
    }
  };
  struct Equal {
    bool operator()(const Shape& a, const Shape& b) const { return std::memcmp(&a, &b, sizeof(a)) == 0; }
  };
  thread_local std::unordered_map<Shape, std::unique_ptr<P>, Hash, Equal> cache;
  auto& entry = cache[shape];
  if (!entry) entry = std::make_unique<P>(shape);
  return *entry;
}

}  // namespace prorata::onednn
