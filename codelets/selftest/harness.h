// Runs one implementation of a codelet on buffers of its own, and holds what it wrote against the reference.
//
// No StarPU runs here: the kernel is called with vector interfaces, filled as StarPU would, on a device with its memory
// (implementations.h). Every buffer is larger than
// the shape needs, as when a handle serves a partial batch. Outputs start out as not a number, and so is what lies
// beside an input; what lies beside an output is a number. So it shows when a kernel leaves an element out, uses what
// it should not read, or writes (or only copies, or updates) beside its output.
#pragma once

#include "codelets/codelet.h"
#include "codelets/selftest/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iomanip>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace prorata::selftest {

using reference::Expected;
using reference::Results;
using reference::Values;

// One a buffer of the codelet, empty where it is only written. After those there may be hidden ones: variables of the
// gradient check that the codelet itself does not read.
using Arguments = std::vector<Values>;

// Reproducible numbers, each of them a float.
class Random {
 public:
  enum class Grain { fine, coarse };  // coarse: multiples of 1/4, hence many ties and exact zeros

  Random(std::size_t seed, Grain grain) : engine_(static_cast<unsigned>(seed)), grain_(grain) {}

  Values uniform(std::size_t count) {  // [-1, 1)
    return generate(count, [this] {
      const double fine = static_cast<double>(engine_() >> 8) * 0x1p-23 - 1;
      return grain_ == Grain::fine ? fine : std::floor(fine * 4) / 4;
    });
  }
  Values below(std::size_t count, unsigned bound) {
    return generate(count, [this, bound] { return static_cast<double>(engine_() % bound); });
  }

 private:
  template <class Draw>
  static Values generate(std::size_t count, Draw draw) {
    Values values(count);
    std::generate(values.begin(), values.end(), draw);
    return values;
  }

  std::mt19937 engine_;
  Grain grain_;
};

enum class Element { f32, i32, u8, u16 };

// The arguments of a task.
struct Case {
  std::string name;
  std::shared_ptr<void> args;
  std::string shape;  // its bytes
  std::size_t samples;
};

// The gradient for `variable` (a place in Arguments) is what the codelet writes to the buffer `gradient`.
struct Derivative {
  std::size_t variable, gradient;
};

// What the tests know of an operation: the members of Entry in entry.h, whatever its argument struct.
struct Operation {
  const Codelet* codelet;
  std::vector<Element> elements;
  std::vector<Case> cases, gradient_cases;
  std::function<Arguments(const void* args, Random&)> inputs;
  std::function<std::vector<Results>(const void* args, const Arguments&)> expected;
  std::function<double(const void* args, const Arguments&)> scalar;
  std::vector<Derivative> derivatives;
  bool smooth;
};

class Buffer {
  static constexpr unsigned char kNoNumber = 0xff;  // as a byte of a float; else -1 or 255, which nobody expects
  static constexpr unsigned char kNumber = 0x3e;

  template <class Use>
  auto with_type(Use use) const {
    switch (element_) {
      case Element::u8: return use(std::uint8_t{});
      case Element::u16: return use(std::uint16_t{});
      case Element::i32: return use(std::int32_t{});
      default: return use(float{});
    }
  }

 public:
  static constexpr std::ptrdiff_t kHead = 1024;  // bytes before the buffer, which keep its alignment, on devices too

  // An output.
  Buffer(Element element, std::size_t used) : Buffer(element, used, kNumber) {
    std::fill_n(bytes_.begin() + kHead, used * size(), kNoNumber);
    before_ = bytes_;
  }
  // An input; `written` where it is an output, too.
  Buffer(Element element, const Values& values, bool written = false)
      : Buffer(element, values.size(), written ? kNumber : kNoNumber) {
    for (std::size_t i = 0; i < used_; ++i) set(i, values[i]);
    before_ = bytes_;
  }

  std::size_t used() const { return used_; }
  double at(std::size_t i) const {
    return with_type([&](auto value) {
      std::memcpy(&value, bytes_.data() + kHead + i * size(), sizeof(value));
      return static_cast<double>(value);
    });
  }

  bool unchanged() const { return bytes_ == before_; }
  bool guards_unchanged() const {
    const auto end = std::ptrdiff_t(kHead + used_ * size());
    return std::equal(bytes_.begin(), bytes_.begin() + kHead, before_.begin()) &&
           std::equal(bytes_.begin() + end, bytes_.end(), before_.begin() + end);
  }

  // All of it, with what lies before and behind.
  std::vector<unsigned char>& bytes() { return bytes_; }

  starpu_vector_interface interface() {
    starpu_vector_interface vector{};
    vector.id = STARPU_VECTOR_INTERFACE_ID;
    vector.ptr = reinterpret_cast<std::uintptr_t>(bytes_.data() + kHead);
    vector.dev_handle = vector.ptr;
    vector.nx = static_cast<std::uint32_t>(capacity());
    vector.elemsize = size();
    vector.allocsize = vector.nx * vector.elemsize;
    return vector;
  }

 private:
  Buffer(Element element, std::size_t used, unsigned char beside)
      : element_(element), used_(used), bytes_(kHead + size() * capacity(), beside) {}

  // Room for a batch four times as large, and for a vector that overhangs the last element.
  std::size_t capacity() const { return 4 * used_ + 64; }
  std::size_t size() const {
    return with_type([](auto value) { return sizeof(value); });
  }

  void set(std::size_t i, double v) {
    with_type([&](auto value) {
      value = static_cast<decltype(value)>(v);
      std::memcpy(bytes_.data() + kHead + i * size(), &value, sizeof(value));
    });
  }

  Element element_;
  std::size_t used_;
  std::vector<unsigned char> bytes_, before_;
};

inline bool matches(double got, Expected expected) {
  if (std::isnan(expected.value)) return std::isnan(got);
  return got == expected.value || std::abs(got - expected.value) <= expected.tolerance;
}

// What is wrong: how many elements, and the first of them. Empty where nothing is.
inline std::string difference(const Buffer& got, const Results& expected) {
  if (got.used() != expected.size())
    return std::to_string(got.used()) + " elements instead of " + std::to_string(expected.size());
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!matches(got.at(i), expected[i])) wrong.push_back(i);
  if (wrong.empty()) return "";
  const std::size_t first = wrong.front();
  std::ostringstream text;
  text << std::setprecision(9) << wrong.size() << " of " << expected.size() << " elements are wrong; [" << first
       << "] is " << got.at(first) << " instead of " << expected[first].value << " +- " << expected[first].tolerance;
  return text.str();
}

inline bool writes(const Operation& op, std::size_t buffer) { return op.codelet->starpu()->modes[buffer] & STARPU_W; }
inline bool reads(const Operation& op, std::size_t buffer) { return op.codelet->starpu()->modes[buffer] & STARPU_R; }

inline std::vector<Buffer> make_buffers(const Operation& op, const Arguments& inputs,
                                        const std::vector<Results>& expected) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < op.codelet->buffers(); ++i)
    if (reads(op, i))
      buffers.emplace_back(op.elements[i], inputs[i], writes(op, i));
    else
      buffers.emplace_back(op.elements[i], expected[i].size());
  return buffers;
}

// What a form of a codelet runs on.
struct TestedDevice {
  std::string kind;  // cpu; kernels: those of devices, on this thread; opencl, cuda
  int number = 0;    // among those of its kind
  std::string name;  // as its driver says; empty for what is no device
};

// A form of a codelet.
struct Implementation {
  std::string name;
  TestedDevice device;
  std::function<void(const void* args, std::vector<Buffer>&)> call;
  std::string missing;  // why it cannot run here; empty where it can
};

// What is wrong with what the kernel writes: it is to be what the reference expects, all of it and nothing else. Throws
// what the kernel throws.
inline std::string check(const Operation& op, const Implementation& implementation, const void* args,
                         const Arguments& inputs) {
  const auto expected = op.expected(args, inputs);
  auto buffers = make_buffers(op, inputs, expected);
  implementation.call(args, buffers);
  rethrow_kernel_error();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string buffer = "buffer " + std::to_string(i) + ": ";
    if (writes(op, i)) {
      if (const std::string wrong = difference(buffers[i], expected[i]); !wrong.empty()) return buffer + wrong;
      if (!buffers[i].guards_unchanged()) return buffer + "written beside the part that the shape uses";
    } else if (!buffers[i].unchanged()) {
      return buffer + "changed, though it is for reading only";
    }
  }
  return "";
}

// Central differences with this step, in double. Their error: from rounding about 1e-16 x (sum of absolute terms: 100)
// / step, and, where the scalar is smooth but not linear, step^2 / 6 x (third derivative: below 1): 1e-10 and 3e-9.
inline constexpr double kStep = 0x1p-13;
inline constexpr double kDifferenceError = 1e-8;

// The derivative of op.scalar for one variable, or nothing where a kink is within the step: for what is linear but for
// kinks, the second difference tells exactly how far off the central difference is.
inline std::optional<Values> central_differences(const Operation& op, const void* args, Arguments inputs,
                                                 std::size_t variable) {
  const double here = op.scalar(args, inputs);
  Values derivative;
  for (double& x : inputs[variable]) {
    const double kept = x;
    x = kept + kStep;
    const double above = op.scalar(args, inputs);
    x = kept - kStep;
    const double below = op.scalar(args, inputs);
    x = kept;
    if (!op.smooth && std::abs(above - 2 * here + below) / (2 * kStep) > kDifferenceError) return std::nullopt;
    derivative.push_back((above - below) / (2 * kStep));
  }
  return derivative;
}

// What is wrong with the kernel's gradients: they are to be the derivatives of op.scalar.
inline std::string check_gradient(const Operation& op, const Implementation& implementation, const Case& c) {
  for (std::size_t seed = 1; seed <= 100; ++seed) {
    Random random(seed, Random::Grain::fine);
    const Arguments inputs = op.inputs(c.args.get(), random);
    std::vector<Values> derivatives;
    for (const Derivative& d : op.derivatives)
      if (auto values = central_differences(op, c.args.get(), inputs, d.variable))
        derivatives.push_back(std::move(*values));
    if (derivatives.size() < op.derivatives.size()) continue;

    const auto expected = op.expected(c.args.get(), inputs);
    auto buffers = make_buffers(op, inputs, expected);
    implementation.call(c.args.get(), buffers);
    rethrow_kernel_error();
    for (std::size_t i = 0; i < derivatives.size(); ++i) {
      const std::size_t gradient = op.derivatives[i].gradient;
      Results differences;
      for (std::size_t k = 0; k < derivatives[i].size(); ++k)
        differences.push_back({derivatives[i][k], expected[gradient].at(k).tolerance + kDifferenceError});
      if (const std::string wrong = difference(buffers[gradient], differences); !wrong.empty())
        return "buffer " + std::to_string(gradient) + " against finite differences: " + wrong;
    }
    return "";
  }
  return "every seed puts the inputs next to a kink";
}

}  // namespace prorata::selftest
