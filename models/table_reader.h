// One table of a TOML file, read key by key: whatever is not as expected is an InputError with file and line.
#pragma once

#include "models/toml_file.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace prorata {

// `what` names the table in sentences. File and table must outlive it.
class TableReader {
 public:
  TableReader(const std::filesystem::path& file, const toml::value& table, std::string what)
      : file_(file), table_(table), what_(std::move(what)) {}

  [[noreturn]] void fail(const toml::value& at, const std::string& sentence) const { fail_at(file_, at, sentence); }
  [[noreturn]] void fail(const std::string& sentence) const { fail(table_, sentence); }

  void only(const std::vector<std::string_view>& keys) const {
    for (const auto& [key, value] : table_.as_table()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      std::string known;
      for (auto k : keys) known += (known.empty() ? "" : ", ") + std::string(k);
      fail(value, what_ + " has no key '" + key + "'; it takes " + known);
    }
  }

  bool has(const std::string& key) const { return table_.contains(key); }

  std::int32_t integer(const std::string& key, std::int64_t least, std::int64_t most) const {
    const toml::value& v = at(key, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
    if (!v.is_integer() || v.as_integer() < least || v.as_integer() > most)
      fail(v,
           what_ + ": '" + key + "' must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<std::int32_t>(v.as_integer());
  }
  std::int32_t integer_or(const std::string& key, std::int64_t least, std::int64_t most, std::int32_t otherwise) const {
    return has(key) ? integer(key, least, most) : otherwise;
  }

  double number_or(const std::string& key, double least, double most, double otherwise) const {
    if (!has(key)) return otherwise;
    const toml::value& v = table_.at(key);
    const double number = v.is_floating() ? v.as_floating() : v.is_integer() ? double(v.as_integer()) : -1;
    if (!(v.is_floating() || v.is_integer()) || !(number >= least && number <= most))
      fail(v, what_ + ": '" + key + "' must be a number from " + toml::format(toml::value(least)) + " to " +
                  toml::format(toml::value(most)));
    return number;
  }

  bool boolean_or(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    const toml::value& v = table_.at(key);
    if (!v.is_boolean()) fail(v, what_ + ": '" + key + "' must be true or false");
    return v.as_boolean();
  }

  std::string text(const std::string& key) const {
    const toml::value& v = at(key, "a string");
    if (!is_text(v)) fail(v, what_ + ": '" + key + "' must be a string that is not empty");
    return v.as_string().str;
  }

  // One of several names.
  template <class Named, class Value>
  Value choice_or(const std::string& key, const Named& all, Value otherwise) const {
    if (!has(key)) return otherwise;
    const std::string wanted = text(key);
    std::string known;
    for (const auto& [name, value] : all) {
      if (name == wanted) return value;
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    fail(table_.at(key), what_ + ": '" + key + "' must be one of " + known);
  }

  // An array of as many strings.
  std::vector<std::string> texts(const std::string& key, std::size_t count) const {
    const std::string expected = "an array of " + std::to_string(count) + " strings";
    const toml::value& v = at(key, expected);
    if (!v.is_array() || v.as_array().size() != count ||
        !std::all_of(v.as_array().begin(), v.as_array().end(), is_text))
      fail(v, what_ + ": '" + key + "' must be " + expected);
    std::vector<std::string> texts;
    for (const toml::value& text : v.as_array()) texts.push_back(text.as_string().str);
    return texts;
  }

  const toml::value& at(const std::string& key, const std::string& expected) const {
    if (!has(key)) fail(what_ + " needs '" + key + "', " + expected);
    return table_.at(key);
  }

 private:
  static bool is_text(const toml::value& v) { return v.is_string() && !v.as_string().str.empty(); }

  const std::filesystem::path& file_;
  const toml::value& table_;
  std::string what_;
};

}  // namespace prorata
