// Files of data sets as the tests need them.
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

// A NumPy file of version 1.0 with this dictionary, from which NumPy would know the numbers.
inline std::string npy(const std::string& dictionary, const std::string& numbers) {
  std::string header = dictionary;
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xff) +
         static_cast<char>(header.size() >> 8) + header + numbers;
}
inline std::string npy(const std::string& type, const std::string& shape, const std::string& numbers) {
  return npy("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }", numbers);
}

// The bytes of numbers.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A folder that goes with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "prorata-data-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class WithFolder : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    return folder_.write(name, bytes);
  }
  std::filesystem::path compress(const std::string& name, const std::string& bytes) const {
    const gzFile f = gzopen((folder() / name).c_str(), "wb");
    gzwrite(f, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(f);
    return folder() / name;
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

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
  TemporaryFolder folder_;
};

}  // namespace prorata::test
