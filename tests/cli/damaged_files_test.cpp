// Files of performance models that StarPU was stopped within, and would abort on.
#include "tests/cli/program.h"

#include <fstream>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

class DamagedModels : public Program {
 protected:
  // They are kept for this host, which is nobody's.
  const std::map<std::string, std::string> here_{{"STARPU_HOSTNAME", "here"}};

  fs::path file(const std::string& name) const { return folder() / "models" / name; }

  // Leaves of the file what a run that was stopped would.
  void cut(const std::string& name, std::uintmax_t size) const {
    ASSERT_GT(fs::file_size(file(name)), size) << name;
    fs::resize_file(file(name), size);
  }

  void expect_set_aside(const Output& o, const std::string& name) const {
    for (const std::string& word :
         {file(name).string() + " is damaged", file(name).string() + ".damaged", std::string("measured anew")})
      EXPECT_NE(o.err.find(word), std::string::npos) << word << " not in: " << o.err;
    EXPECT_TRUE(fs::exists(file(name + ".damaged"))) << name;
  }
};

constexpr const char* kDense = "codelets/45/prorata_dense_forward.here";

TEST_F(DamagedModels, OfACodeletIsMeasuredAnew) {
  const std::vector<std::string> options{"--epochs", "1", "--batch", "64", "--overwrite"};
  ASSERT_EQ(train(options, here_).code, 0);
  const std::string whole = read(file(kDense));
  cut(kDense, whole.size() / 2);
  const Output o = train(options, here_);
  EXPECT_EQ(o.code, 0) << o.err;
  expect_set_aside(o, kDense);
  EXPECT_EQ(read(file(std::string(kDense) + ".damaged")), whole.substr(0, whole.size() / 2));
  EXPECT_GT(fs::file_size(file(kDense)), whole.size() / 2) << "it was measured";
  const Output again = train(options, here_);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.err.find("damaged"), std::string::npos) << again.err;
}

TEST_F(DamagedModels, OfTheBusIsMeasuredAnew) {
  ASSERT_EQ(run({"devices"}, here_).code, 0);
  for (const char* part : {"config", "affinity"})
    for (const std::uintmax_t size : {0, 3}) {
      const std::string name = std::string("bus/here.") + part;
      cut(name, size);
      const Output o = run({"devices"}, here_);
      EXPECT_EQ(o.code, 0) << o.err;
      expect_set_aside(o, name);
      EXPECT_GT(fs::file_size(file(name)), size) << name << " was measured";
      fs::remove(file(name + ".damaged"));
    }
}

// These StarPU finds by itself.
TEST_F(DamagedModels, OfBandwidthAndLatencyIsStarpusOwnAffair) {
  ASSERT_EQ(run({"devices"}, here_).code, 0);
  for (const char* part : {"bandwidth", "latency"})
    for (const std::uintmax_t size : {0, 30}) {
      const std::string name = std::string("bus/here.") + part;
      cut(name, size);
      const Output o = run({"devices"}, here_);
      EXPECT_EQ(o.code, 0) << o.err;
      EXPECT_EQ(o.err.find("damaged"), std::string::npos) << o.err;
      EXPECT_GT(fs::file_size(file(name)), size) << name;
    }
}

// Another run has the same models, and must not lose what it is about to write.
TEST_F(DamagedModels, AreLeftAloneWhileEmpty) {
  const std::vector<std::string> options{"--epochs", "1", "--batch", "64", "--overwrite"};
  ASSERT_EQ(train(options, here_).code, 0);
  cut(kDense, 0);
  const Output o = train(options, here_);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err.find("damaged"), std::string::npos) << o.err;
  EXPECT_GT(fs::file_size(file(kDense)), 0u);
}

}  // namespace
}  // namespace prorata::test
