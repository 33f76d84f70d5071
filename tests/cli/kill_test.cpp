// Runs that are killed at any moment, also while they write a checkpoint, and gone on with: no checkpoint is ever
// damaged or lost, and in the end the parameters are those of a run that was never stopped.
//
// PRORATA_KILLS=200 kills as often; 20 by default.
#include "tests/cli/program.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <random>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

// A checkpoint takes longer than 3 mini-batches do, so most kills meet one being written.
const std::vector<std::string> kHow = {"--epochs", "5",           "--batch", "64",     "--checkpoint-every",
                                       "3",        "--optimizer", "adam",    "--quiet"};

class Killed : public Program {
 protected:
  // When a run is killed: so long after its start, or after it has written its first checkpoint.
  struct Moment {
    std::chrono::milliseconds after;
    bool of_its_start;
  };

  // Runs until it ends, or until the moment comes. All have one folder of models: a kill may come while StarPU writes
  // them, and the next one finds what is left.
  Output attempt(std::vector<std::string> arguments, const std::optional<Moment>& moment) {
    arguments.insert(arguments.end(), kHow.begin(), kHow.end());
    std::optional<std::chrono::steady_clock::time_point> begin;
    const fs::path before = last();
    if (moment && moment->of_its_start) begin = std::chrono::steady_clock::now();
    return run(arguments, {}, [&](pid_t program) {
      if (!moment) return;
      if (!begin && last() != before) begin = std::chrono::steady_clock::now();
      if (begin && std::chrono::steady_clock::now() - *begin >= moment->after) kill(program, SIGKILL);
    });
  }

  // Of models that StarPU was killed within.
  int damaged_models() const {
    int count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder() / "models"))
      count += entry.path().extension() == ".damaged";
    return count;
  }

  fs::path last() const {
    std::error_code none;
    return fs::read_symlink(folder() / "run/checkpoint", none);
  }

  std::uint64_t updates() const {
    return nlohmann::json::parse(read(folder() / "run/checkpoint/state.json"))["position"]["updates"][0];
  }
};

TEST_F(Killed, AnywhereLosesNoCheckpointAndChangesNoBit) {
  const char* wanted = std::getenv("PRORATA_KILLS");
  const int kills = wanted ? std::atoi(wanted) : 20;
  const std::vector<std::string> begin = {"train", "--model", "small.toml", "--dataset", "synthetic", "--out"};
  std::vector<std::string> whole = begin, fresh = begin;
  whole.push_back("whole");
  fresh.insert(fresh.end(), {"run", "--overwrite"});
  const Output reference = attempt(whole, {});
  ASSERT_EQ(reference.code, 0) << reference.err;
  const auto ends_the_same = [&] {
    for (const char* file : {"checkpoint/model.safetensors", "checkpoint/optimizer.safetensors"})
      EXPECT_EQ(read(folder() / "run" / file), read(folder() / "whole" / file)) << file;
  };

  std::mt19937 random(1);
  std::uniform_int_distribution<int> milliseconds(0, 400);
  int killed = 0, amid_writing = 0, ended = 0, begun = 0;
  bool resumable = false;
  std::uint64_t done = 0;
  for (int n = 1; killed < kills; ++n) {
    begun += !resumable;
    const Output o = attempt(resumable ? std::vector<std::string>{"train", "--resume", "--out", "run"} : fresh,
                             Moment{std::chrono::milliseconds(milliseconds(random)), n % 4 == 0});
    ASSERT_TRUE(o.code == 0 || o.code == 128 + SIGKILL) << o.code << ": " << o.err;
    if (o.code == 0) {
      ++ended;
      ends_the_same();
      resumable = false;
      done = 0;
      continue;
    }
    ++killed;
    const bool there = fs::exists(folder() / "run/checkpoint");
    ASSERT_TRUE(there || !resumable) << "the checkpoint is lost";
    if (there) {
      ASSERT_GE(updates(), done) << "an older one has come back";
      done = updates();
    }
    resumable = there;
    if (fs::exists(folder() / "run/checkpoints"))
      for (const auto& entry : fs::directory_iterator(folder() / "run/checkpoints"))
        if (entry.path().extension() == ".tmp") {
          ++amid_writing;
          break;
        }
  }
  const Output o = attempt(resumable ? std::vector<std::string>{"train", "--resume", "--out", "run"} : fresh, {});
  ASSERT_EQ(o.code, 0) << o.err;
  ends_the_same();
  std::printf(
      "%d kills, %d of them amid the writing of a checkpoint; %d runs begun, %d ended; %d damaged models set aside\n",
      killed, amid_writing, begun, ended + 1, damaged_models());
}

}  // namespace
}  // namespace prorata::test
