// IDX files as the tests need them.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace prorata::test {

inline std::string idx(std::uint8_t type, const std::vector<std::uint32_t>& dimensions, const std::string& values) {
  std::string bytes{0, 0, static_cast<char>(type), static_cast<char>(dimensions.size())};
  for (const std::uint32_t d : dimensions)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(d >> shift);
  return bytes + values;
}

class WithFolder : public ::testing::Test {
 protected:
  WithFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "prorata-data-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~WithFolder() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::filesystem::path compress(const std::string& name, const std::string& bytes) const {
    const gzFile f = gzopen((folder_ / name).c_str(), "wb");
    gzwrite(f, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(f);
    return folder_ / name;
  }
  const std::filesystem::path& folder() const { return folder_; }

  // Expects an InputError that names `file` and has all of `words`.
  template <class Error, class F>
  static void expect_error(const F& f, const std::vector<std::string>& words) {
    try {
      f();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& e) {
      for (const std::string& word : words)
        EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << word << " not in: " << e.what();
    }
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace prorata::test
