// Parameter files: what is written is read again, and what is wrong is refused before anything is changed.
#include "models/parameter_file.h"

#include "models/errors.h"
#include "tests/starpu_fixture.h"
#include "tests/tiny_networks.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

class ParameterFile : public WithStarpu {
 protected:
  ParameterFile() {
    std::string name = (fs::temp_directory_path() / "prorata-parameters-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
    start(1);
  }
  ~ParameterFile() override {
    stop();
    fs::remove_all(folder_);
  }

  fs::path write(const std::string& content) const {
    std::ofstream(folder_ / "file", std::ios::binary) << content;
    return folder_ / "file";
  }
  static std::string with_header(const std::string& header, std::size_t data) {
    const std::uint64_t length = header.size();
    std::string text(sizeof(length), '\0');
    std::memcpy(text.data(), &length, sizeof(length));
    return text + header + std::string(data, '\0');
  }
  // Of small_mlp(1): fc1 16 -> 1, fc2 1 -> 3.
  static std::string header(const std::string& fc1_weight = R"({"dtype":"F32","shape":[1,16],"data_offsets":[0,64]})",
                            const std::string& more = "") {
    return R"({"fc1.weight":)" + fc1_weight + R"(,"fc1.bias":{"dtype":"F32","shape":[1],"data_offsets":[64,68]},)" +
           R"("fc2.weight":{"dtype":"F32","shape":[3,1],"data_offsets":[68,80]},)" +
           R"("fc2.bias":{"dtype":"F32","shape":[3],"data_offsets":[80,92]})" + more + "}";
  }
  static std::vector<float> values(const Network& n) {
    std::vector<float> all;
    for (std::size_t i = 0; i < n.depth(); ++i)
      if (const ParameterBlock* b = n.parameters(i)) {
        all.insert(all.end(), b->values.span().begin(), b->values.span().end());
        for (const OptimizerState& s : b->state) all.insert(all.end(), s.values.span().begin(), s.values.span().end());
      }
    return all;
  }

  fs::path folder_;
};

TEST_F(ParameterFile, KeepsParametersAndOptimizerStateToTheBit) {
  const Optimizer adam{.kind = OptimizerKind::adam};
  Network network(every_layer(), 1, adam), other(every_layer(), 2, adam);
  float divisor = 3;
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (ParameterBlock* b = network.parameters(i))
      for (OptimizerState& s : b->state)
        for (std::size_t k = 0; k < s.values.count; ++k) s.values.span()[k] = static_cast<float>(k) / divisor++;
  write_parameters(network, folder_ / "model");
  write_optimizer_state(network, folder_ / "optimizer");
  ASSERT_NE(values(other), values(network));
  read_parameters(other, folder_ / "model");
  read_optimizer_state(other, folder_ / "optimizer");
  EXPECT_EQ(values(other), values(network));
  EXPECT_THROW(read_parameters(other, folder_ / "optimizer"), InputError);
  EXPECT_THROW(read_optimizer_state(other, folder_ / "model"), InputError);
}

TEST_F(ParameterFile, RefusesHostileFilesAndChangesNothing) {
  Network network(small_mlp(1), 1);
  const std::vector<float> before = values(network);
  ASSERT_NO_THROW(read_parameters(network, write(with_header(header(), 92))));
  EXPECT_NE(values(network), before) << "zeros were read";
  const std::vector<float> now = values(network);
  struct Wrong {
    std::string content;
    const char* word;
  };
  const auto entry = [](const std::string& text) { return with_header(header(text), 92); };
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const std::vector<Wrong> all = {
      {"", "8"},
      {std::string(7, '\0'), "8"},
      {std::string(8, '\0'), "JSON"},
      {std::string(8, '\xff'), "header"},
      {with_header(header(), 92).substr(0, 50), "truncated"},
      {with_header(header(), 91), "truncated"},
      {with_header(header(), 93), "behind"},
      {with_header("[]", 0), "JSON object"},
      {with_header("{", 0), "JSON object"},
      {with_header("\xff\xfe", 0), "JSON object"},
      {with_header("{}", 92), "behind"},
      {with_header(R"({"a":)" + deep + "}", 0), "deep"},
      {entry("3"), "dtype"},
      {entry(R"({"dtype":3,"shape":[1,16],"data_offsets":[0,64]})"), "dtype"},
      {entry(R"({"dtype":"F16","shape":[1,16],"data_offsets":[0,64]})"), "F16"},
      {entry(R"({"dtype":"F32","shape":[16,1],"data_offsets":[0,64]})"), "shape"},
      {entry(R"({"dtype":"F32","shape":[1,-16],"data_offsets":[0,64]})"), "shape"},
      {entry(R"({"dtype":"F32","shape":"[1,16]","data_offsets":[0,64]})"), "shape"},
      {entry(R"({"dtype":"F32","data_offsets":[0,64]})"), "shape"},
      {entry(R"({"dtype":"F32","shape":[1,16]})"), "data_offsets"},
      {entry(R"({"dtype":"F32","shape":[1,16],"data_offsets":[0]})"), "data_offsets"},
      {entry(R"({"dtype":"F32","shape":[1,16],"data_offsets":[0,-64]})"), "data_offsets"},
      {entry(R"({"dtype":"F32","shape":[1,16],"data_offsets":[0,64.5]})"), "data_offsets"},
      {entry(R"({"dtype":"F32","shape":[1,16],"data_offsets":[64,0]})"), "data_offsets"},
      {entry(R"({"dtype":"F32","shape":[1,16],"data_offsets":[4,68]})"), "data_offsets"},  // overlaps
      {entry(R"({"dtype":"F32","shape":[1,16],"data_offsets":[0,60]})"), "data_offsets"},  // leaves a gap
      {entry(R"({"dtype":"F32","shape":[1,16],"data_offsets":[0,18446744073709551615]})"), "behind"},
      {entry(R"({"dtype":"F32","shape":[1,16],"data_offsets":[18446744073709551612,60]})"), "data_offsets"},
      {entry(R"({"dtype":"F32","dtype":"F32","shape":[1,16],"data_offsets":[0,64]})"), "twice"},
      {with_header(header(R"({"dtype":"F32","shape":[1,16],"data_offsets":[0,64]})",
                          R"(,"fc2.bias":{"dtype":"F32","shape":[3],"data_offsets":[80,92]})"),
                   92),
       "twice"},
      {with_header(header(R"({"dtype":"F32","shape":[1,16],"data_offsets":[0,64]})",
                          R"(,"extra":{"dtype":"F32","shape":[1],"data_offsets":[92,96]})"),
                   96),
       "extra"},
      {with_header(R"({"fc1.weight":{"dtype":"F32","shape":[1,16],"data_offsets":[0,64]}})", 64), "fc1.bias"}};
  for (const Wrong& w : all) {
    SCOPED_TRACE(w.content.substr(0, 200));
    try {
      read_parameters(network, write(w.content));
      ADD_FAILURE() << "was taken";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(w.word), std::string::npos) << w.word << " not in: " << e.what();
      EXPECT_NE(std::string(e.what()).find("/file"), std::string::npos) << e.what();
    }
    EXPECT_EQ(values(network), now);
  }
  EXPECT_THROW(read_parameters(network, folder_), InputError);
  EXPECT_THROW(read_parameters(network, folder_ / "none"), InputError);
}

TEST_F(ParameterFile, SaysWhyItCannotBeWritten) {
  const Network network(small_mlp(), 1);
  try {
    write_parameters(network, "/dev/full");
    ADD_FAILURE() << "was written";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find(std::strerror(ENOSPC)), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace prorata::test
