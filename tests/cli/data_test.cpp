// Data sets of every kind, and preprocessing, as a user asks for them.
#include "tests/cli/program.h"
#include "tests/driver/data/files.h"
#include "tests/driver/data/mat_file.h"

#include <fstream>

namespace prorata::test {
namespace {

namespace fs = std::filesystem;

class DataSet : public Program {
 protected:
  DataSet() { fs::create_directory(folder() / "data"); }

  void network(const std::string& input) const {
    write("net.toml",
          "name = \"net\"\ninput = " + input +
              "\nclasses = 3\n[defaults]\nepochs = 1\nbatch = 16\n[[layer]]\ntype = \"dense\"\nunits = 3\n");
  }
  Output train_on(const std::string& set, std::vector<std::string> more = {},
                  const std::map<std::string, std::string>& environment = {}) {
    std::vector<std::string> arguments{"train",  "--model", "net.toml", "--dataset", set,
                                       "--data", "data",    "--out",    "run",       "--overwrite"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, environment);
  }
  void expect_trained(const Output& o, int samples) const {
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(summary()["samples"], samples);
  }
  std::string parameters() const { return read(folder() / "run/checkpoint/model.safetensors"); }

  // Images of 6 x 5, of which two channels tell the classes apart.
  void write_npy(std::size_t count = 96) const {
    std::vector<float> images;
    std::string labels;
    for (std::size_t i = 0; i < count; ++i) {
      labels += static_cast<char>(i % 3);
      for (std::size_t f = 0; f < 60; ++f)
        images.push_back(static_cast<float>(f % 2 ? i % 3 : (i % 3) * (i % 3)) + static_cast<float>(f * i % 7) / 10);
    }
    for (const std::string split : {"train", "test"}) {
      const std::string n = std::to_string(count);
      write("data/" + split + "_images.npy", npy("<f4", "(" + n + ", 6, 5, 2)", bytes_of(images)));
      write("data/" + split + "_labels.npy", npy("|u1", "(" + n + ",)", labels));
    }
  }
};

// The run's own copy of the file says what the data set was, so what reads the run needs no such network.
TEST_F(DataSet, GivesItsShapeToANetworkThatLeavesItOpen) {
  write("net.toml",
        "name = \"net\"\n[defaults]\nepochs = 1\nbatch = 16\n[[layer]]\ntype = \"dense\"\nunits = 5\n"
        "[[layer]]\ntype = \"dense\"\n");
  write_npy();
  expect_trained(train_on("npy"), 96);
  EXPECT_EQ(summary()["parameters"], 60 * 5 + 5 + 5 * 3 + 3);
  EXPECT_EQ(read(folder() / "run/checkpoint/network.toml"),
            "input = [6, 5, 2]  # the data set's\nclasses = 3\n" + read(folder() / "net.toml"));
  const std::vector<std::string> data{"--dataset", "npy", "--data", "data"};
  const auto with_data = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), data.begin(), data.end());
    return run(arguments);
  };
  EXPECT_EQ(with_data({"eval", "run"}).code, 0);
  EXPECT_EQ(with_data({"eval", "run/checkpoint/model.safetensors", "--model", "net.toml"}).code, 0);
  EXPECT_EQ(with_data({"predict", "run"}).code, 0);
  EXPECT_EQ(run({"train", "--resume", "--out", "run", "--model", "net.toml"}).code, 0);
  expect_refused(run({"eval", "run", "--dataset", "fashion-mnist"}), {"[28, 28, 1]", "[6, 5, 2]"});
}

TEST_F(DataSet, IsMnistPlainOrCompressed) {
  std::string images, labels;
  for (int i = 0; i < 60; ++i) {
    labels += static_cast<char>(i % 3);
    images += std::string(6, static_cast<char>(i % 3 * 100));
  }
  for (const std::string split : {"train", "t10k"}) {
    write("data/" + split + "-images-idx3-ubyte", idx(8, {60, 2, 3}, images));
    write("data/" + split + "-labels-idx1-ubyte", idx(8, {60}, labels));
  }
  write("net.toml",
        "name = \"net\"\ninput = [2, 3, 1]\nclasses = 10\n[defaults]\nepochs = 1\nbatch = 16\n"
        "[[layer]]\ntype = \"dense\"\nunits = 10\n");
  expect_trained(train_on("mnist"), 60);
  const std::string plain = parameters();
  for (const auto& file : fs::directory_iterator(folder() / "data")) {
    const std::string bytes = read(file.path());
    const gzFile f = gzopen((file.path().string() + ".gz").c_str(), "wb");
    gzwrite(f, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(f);
    fs::remove(file.path());
  }
  expect_trained(train_on("mnist"), 60);
  EXPECT_EQ(parameters(), plain);
}

TEST_F(DataSet, IsCifar10) {
  write("net.toml",
        "name = \"net\"\ninput = [32, 32, 3]\nclasses = 10\n[defaults]\nepochs = 1\nbatch = 16\n"
        "[[layer]]\ntype = \"dense\"\nunits = 10\n");
  std::string records;
  for (int i = 0; i < 10; ++i) records += static_cast<char>(i) + std::string(3072, static_cast<char>(i * 20));
  for (const char* file :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"})
    write("data/" + std::string(file) + ".bin", records);
  ASSERT_EQ(train_on("cifar10", {"--normalize", "--random-crop", "4", "--horizontal-flip", "--cutout", "8"}).code, 0);
  EXPECT_EQ(summary()["samples"], 50);
  write("data/data_batch_4.bin", records.substr(0, 5000));
  expect_refused(train_on("cifar10"), {"data_batch_4.bin", "byte 3073"});
}

TEST_F(DataSet, IsFilesOfNumpy) {
  network("[6, 5, 2]");
  write_npy();
  expect_trained(train_on("npy", {"--normalize"}), 96);
  const double accuracy = summary()["test_accuracy"];
  const Output o =
      run({"eval", "run", "--model", "net.toml", "--dataset", "npy", "--data", "data", "--normalize", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out)["test_accuracy"], accuracy);
  std::string images = read(folder() / "data/test_images.npy");
  images.resize(images.size() - 1);
  write("data/test_images.npy", images);
  expect_refused(train_on("npy"), {"test_images.npy", "byte 128", "truncated"});
}

TEST_F(DataSet, MayLieOnlyWhereJsonCanSay) {
  network("[6, 5, 2]");
  write_npy();
  fs::rename(folder() / "data", folder() / "d\xff");
  expect_refused(run({"train", "--model", "net.toml", "--dataset", "npy", "--data", "d\xff", "--out", "run"}),
                 {"UTF-8"});
  EXPECT_FALSE(fs::exists(folder() / "run"));
}

TEST_F(DataSet, IsAHyperspectralScene) {
  network("[3, 3, 4]");
  std::vector<double> cube;
  std::vector<std::uint8_t> truth;
  for (int i = 0; i < 12 * 10; ++i) truth.push_back(static_cast<std::uint8_t>(i / 30));  // 0: unlabelled
  for (int b = 0; b < 4; ++b)
    for (int i = 0; i < 12 * 10; ++i) cube.push_back(truth[static_cast<std::size_t>(i)] == b ? 900 + i % 5 : i % 7);
  write_mat<double>(folder() / "data/cube.mat", "cube", {12, 10, 4}, cube);
  write_mat<std::uint8_t>(folder() / "data/truth.mat", "truth", {12, 10}, truth);
  expect_trained(train_on("hyperspectral", {"--train-per-class", "15", "--epochs", "3"}), 3 * 45);
  EXPECT_GT(summary()["test_accuracy"], 0.8);
  const std::string by_one = parameters();
  expect_trained(train_on("hyperspectral", {"--train-per-class", "15", "--epochs", "3", "--split-seed", "2"}), 3 * 45);
  EXPECT_NE(parameters(), by_one);
  EXPECT_EQ(summary()["train_per_class"], 15);
  EXPECT_EQ(summary()["split_seed"], 2);
  expect_trained(train_on("hyperspectral"), 9);
  EXPECT_EQ(summary()["train_per_class"], 0.1);
  truth[33] = 4;
  write_mat<std::uint8_t>(folder() / "data/truth.mat", "truth", {12, 10}, truth);
  expect_refused(train_on("hyperspectral"), {"truth.mat", "row 9, column 2", "class is 4"});
}

TEST_F(DataSet, IsRefusedWithOptionsThatAreAnothers) {
  network("[6, 5, 2]");
  write_npy();
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--train-per-class", "3"}, {"--split-seed", "3"}})
    expect_refused(train_on("npy", options), {options[0], "npy"});
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--random-crop", "-1"},
                                                  {"--random-crop", "2000"},
                                                  {"--cutout", "x"},
                                                  {"--train-per-class", "0"},
                                                  {"--train-per-class", "nan"},
                                                  {"--split-seed", "-1"}})
    expect_refused(train_on("npy", options), {options[0]});
  expect_refused(train_on("nonesuch"), {"nonesuch", "cifar10", "hyperspectral", "npy"});
  expect_refused(run({"train", "--model", "net.toml", "--dataset", "npy"}), {"--data", "train_images.npy"});
  expect_refused(run({"train", "--model", "net.toml", "--dataset", "npy", "--data", "none"}), {"none", "--data"});
}

// In steps of three mini-batches, so that only who prepares and computes them differs.
TEST_F(DataSet, IsPreparedToTheSameBitsByAnyNumberOfWorkers) {
  network("[6, 5, 2]");
  write_npy();
  const auto parameters_after = [&](std::vector<std::string> options, const char* cpus) {
    for (const char* more : {"--epochs", "2", "--consistency", "bsp", "--round", "3"}) options.emplace_back(more);
    const Output o = train_on("npy", options, {{"STARPU_NCPU", cpus}});
    EXPECT_EQ(o.code, 0) << o.err;
    return parameters();
  };
  const std::vector<std::vector<std::string>> each = {
      {}, {"--normalize"}, {"--random-crop", "2"}, {"--horizontal-flip"}, {"--cutout", "3"}};
  std::vector<std::string> all;
  std::vector<std::string> seen;
  for (const auto& options : each) {
    all.insert(all.end(), options.begin(), options.end());
    seen.push_back(parameters_after(options, "1"));
    for (std::size_t i = 0; i + 1 < seen.size(); ++i) EXPECT_NE(seen[i], seen.back()) << options[0] << " does nothing";
  }
  const std::string one = parameters_after(all, "1");
  EXPECT_EQ(parameters_after(all, "3"), one);
  const auto s = summary()["preprocessing"];
  EXPECT_EQ(s["normalize"], true);
  EXPECT_EQ(s["random_crop"], 2);
  EXPECT_EQ(s["horizontal_flip"], true);
  EXPECT_EQ(s["cutout"], 3);
  all.insert(all.end(), {"--seed", "2"});
  EXPECT_NE(parameters_after(all, "1"), one);
}

TEST_F(DataSet, TakesItsOptionsFromAFileToo) {
  network("[6, 5, 2]");
  write_npy();
  write("options.toml", "[train]\nnormalize = true\nrandom-crop = 1\ncutout = 2\n");
  ASSERT_EQ(train_on("npy", {"--config", "options.toml", "--cutout", "3"}).code, 0);
  EXPECT_EQ(summary()["preprocessing"]["normalize"], true);
  EXPECT_EQ(summary()["preprocessing"]["random_crop"], 1);
  EXPECT_EQ(summary()["preprocessing"]["cutout"], 3);
}

}  // namespace
}  // namespace prorata::test
