// Runs the program in a folder of its own and keeps what it said.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace prorata::test {

struct Output {
  int code;  // exit code, or 128 + the signal that ended it
  std::string out, err;
};

class Program : public ::testing::Test {
 protected:
  Program();
  ~Program() override;

  // Runs `prorata ARGUMENTS...`, by launcher() where there is one, in folder(), with these variables set ("" takes one
  // away) besides one CPU worker. `meanwhile` is called about every 10 ms while it runs.
  Output run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment = {},
             const std::function<void(pid_t)>& meanwhile = {});

  // `train` on a small network and synthetic data, into folder() / "run".
  Output train(std::vector<std::string> more = {}, const std::map<std::string, std::string>& environment = {});

  // What starts the program, as `mpirun -n 2`.
  std::vector<std::string>& launcher() { return launcher_; }

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path write(const std::string& name, const std::string& content) const;
  nlohmann::json summary() const;

  // Expects exit code 2 and all of `words` on standard error, nothing on standard output.
  static void expect_refused(const Output& o, const std::vector<std::string>& words);

  static constexpr const char* kNetwork =
      "name = \"small\"\ninput = [6, 6, 1]\nclasses = 3\n"
      "[[layer]]\nname = \"conv\"\ntype = \"conv2d\"\nchannels = 2\nkernel = 3\n"
      "[[layer]]\ntype = \"relu\"\n"
      "[[layer]]\nname = \"fc\"\ntype = \"dense\"\nunits = 3\n";

 private:
  std::filesystem::path folder_;
  std::vector<std::string> launcher_;
};

std::string read(const std::filesystem::path& file);

}  // namespace prorata::test
