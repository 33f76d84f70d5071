// Files and variables that are wrong: a sentence that says what and where, and exit code 2.
#include "tests/cli/program.h"

namespace prorata::test {
namespace {

TEST_F(Program, SaysWhatIsWrongWithANetworkFile) {
  const std::string head = "name = \"n\"\ninput = [6, 6, 1]\nclasses = 3\n";  // three lines
  const std::string dense = "[[layer]]\ntype = \"dense\"\nunits = 3\n";
  const std::vector<std::pair<std::string, std::vector<std::string>>> wrong = {
      {"name = \n", {":1", "TOML"}},
      {"input = [6, 6, 1]\nclasses = 3\n" + dense, {"name"}},
      {"name = 3\ninput = [6, 6, 1]\nclasses = 3\n" + dense, {":1", "name"}},
      {"name = \"n\"\ninput = [6, 6]\nclasses = 3\n" + dense, {":2", "input"}},
      {"name = \"n\"\ninput = [6, 0, 1]\nclasses = 3\n" + dense, {":2", "input"}},
      {"name = \"n\"\ninput = [65536, 65536, 4]\nclasses = 3\n" + dense, {":2", "smaller"}},
      {"name = \"n\"\ninput = [6, 6, 1]\nclasses = 1\n" + dense, {":3", "classes"}},
      {head, {"layer"}},
      {head + "layer = 3\n", {":4", "layer"}},
      {head + "colour = 3\n" + dense, {":4", "colour"}},
      {head + "[defaults]\nepochs = 0\n" + dense, {":5", "epochs"}},
      {head + "[defaults]\nmomentum = \"much\"\n" + dense, {":5", "momentum"}},
      {head + "[defaults]\noptimizer = \"magic\"\n" + dense, {":5", "optimizer", "sgd, adam, adamw"}},
      {head + "[defaults]\nlr_schedule = \"step\"\n" + dense, {"lr_step_epochs"}},
      {head + "[[layer]]\nunits = 3\n", {":4", "type"}},
      {head + "[[layer]]\ntype = \"magic\"\n", {":5", "magic", "conv2d"}},
      {head + "[[layer]]\ntype = \"dense\"\n" + dense, {":4", "units"}},
      {head + "[[layer]]\ntype = \"dense\"\nunits = 0\n", {":6", "units"}},
      {head + "[[layer]]\ntype = \"dense\"\nunits = 3\nkernel = 2\n", {":7", "kernel"}},
      {head + "[[layer]]\ntype = \"conv2d\"\nchannels = 2\nkernel = 9\n" + dense, {"does not fit"}},
      {head + "[[layer]]\ntype = \"conv2d\"\nchannels = 2\nkernel = 3\npadding = 3\n" + dense, {"padding"}},
      {head + "[[layer]]\ntype = \"max_pool\"\nwindow = 16\n" + dense, {":6", "window"}},
      {head + "[[layer]]\nname = \"a\"\ntype = \"relu\"\n[[layer]]\nname = \"a\"\ntype = \"dense\"\nunits = 3\n",
       {"'a'"}},
      {head + "[[layer]]\ntype = \"dense\"\nunits = 4\n", {"4", "classes"}},
      {head + "[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"dense\"\nunits = 3\ninput = \"b\"\n",
       {":9", "'b'", "\"input\""}},
      {head + "[[layer]]\ntype = \"relu\"\ninput = \"1\"\n" + dense, {":6", "'1'", "earlier"}},
      {head + "[[layer]]\ntype = \"relu\"\ninput = \"0\"\n" + dense, {":6", "'0'", "earlier"}},
      {head + "[[layer]]\ntype = \"relu\"\ninputs = [\"0\", \"0\"]\n" + dense, {":6", "inputs"}},
      {head + "[[layer]]\ntype = \"add\"\n" + dense, {":4", "inputs"}},
      {head + dense + "[[layer]]\ntype = \"add\"\ninputs = [\"0\"]\n", {":9", "2 strings"}},
      {head + "[[layer]]\ntype = \"relu\"\n" + dense + "[[layer]]\ntype = \"add\"\ninputs = [\"0\", \"1\"]\n",
       {":9", "[6, 6, 1]", "[1, 1, 3]"}},
      {head + "[[layer]]\ntype = \"relu\"\n[[layer]]\nname = \"alone\"\ntype = \"relu\"\n" + dense + "input = \"0\"\n",
       {":6", "'alone'", "no other"}},
      {head + "[[layer]]\ntype = \"avg_pool\"\nwindow = 7\n" + dense, {"does not fit"}},
      {head + "[[layer]]\ntype = \"conv2d\"\nchannels = 2\nkernel = 1\n[[layer]]\ntype = \"flatten\"\n" +
           "[[layer]]\ntype = \"max_pool\"\nwindow = 1\n" + dense,
       {":10", "'1'", "flattened"}},
      {head + "[[layer]]\ntype = \"conv2d\"\nchannels = 2\nkernel = 1\n[[layer]]\ntype = \"flatten\"\n" +
           "[[layer]]\ntype = \"dense\"\nunits = 72\n[[layer]]\ntype = \"add\"\ninputs = [\"1\", \"2\"]\n" + dense,
       {":13", "'1'", "'2'", "flatten"}},
      {head + "[[layer]]\ntype = \"dropout\"\nprobability = 1\n" + dense, {":6", "probability"}},
      {head + "[[layer]]\ntype = \"batch_norm\"\nmomentum = 2\n" + dense, {":6", "momentum"}},
      {head + "[[layer]]\ntype = \"conv2d\"\nchannels = 2\nkernel = 1\nbias = 0\n" + dense, {":8", "bias", "true"}},
      {head + "[[layer]]\ntype = \"conv2d\"\nchannels = 2\nkernel = 1\ngroups = 2\n" + dense,
       {":4", "groups", "divide"}},
      {head + "[[layer]]\ntype = \"relu\"\n", {"trained"}}};
  for (const auto& [text, words] : wrong) {
    write("bad.toml", text);
    std::vector<std::string> expected = words;
    expected[0] = words[0][0] == ':' ? "bad.toml" + words[0] : words[0];
    SCOPED_TRACE(text);
    expect_refused(run({"train", "--model", "bad.toml", "--dataset", "synthetic"}), expected);
  }
  expect_refused(run({"train", "--model", "none.toml"}), {"none.toml"});
  expect_refused(run({"train", "--model", "nonesuch"}), {"nonesuch", "lenet5", "mlp"});
}

TEST_F(Program, SaysWhatIsWrongWithTheDataSet) {
  expect_refused(run({"train", "--model", "mlp", "--dataset", "mnist"}), {"--data"});
  expect_refused(run({"train", "--model", "mlp", "--data", "nowhere"}), {"nowhere"});
  std::filesystem::create_directory(folder() / "data");
  expect_refused(run({"train", "--model", "mlp", "--data", "data"}), {"train-images-idx3-ubyte"});
  write("data/train-images-idx3-ubyte", "not IDX at all");
  write("data/train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\0", 9));
  expect_refused(run({"train", "--model", "mlp", "--data", "data"}), {"train-images-idx3-ubyte", "byte 0", "magic"});
  expect_refused(run({"train", "--model", "small.toml", "--dataset", "fashion-mnist"}), {"[28, 28, 1]", "[6, 6, 1]"});
  write("wide.toml", "name = \"wide\"\n[[layer]]\ntype = \"dense\"\nunits = 40000\n[[layer]]\ntype = \"dense\"\n");
  expect_refused(run({"train", "--model", "wide.toml", "--dataset", "synthetic", "--batch", "60000"}),
                 {"2400000000 values", "layer '0'", "--batch"});
}

class Policy : public Program, public ::testing::WithParamInterface<const char*> {};

TEST_P(Policy, OfStarpuItselfTrainsToo) {
  const Output o = train({"--epochs", "1"}, {{"STARPU_SCHED", GetParam()}, {"STARPU_NCPU", "2"}});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(summary()["scheduler"], GetParam());
  EXPECT_EQ(summary()["samples"], 6000);
}

INSTANTIATE_TEST_SUITE_P(Names, Policy,
                         ::testing::Values("prorata", "eager", "prio", "random", "lws", "ws", "dm", "dmda", "dmdas",
                                           "heteroprio", "modular-eager"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(Program, TakesOursWhereNoPolicyIsNamedAndRefusesUnknownOnes) {
  ASSERT_EQ(train({"--epochs", "1"}, {{"STARPU_SCHED", ""}}).code, 0);
  EXPECT_EQ(summary()["scheduler"], "prorata");
  expect_refused(train({"--overwrite"}, {{"STARPU_SCHED", "proratta"}}), {"proratta", "prorata", "eager", "dmda"});
  expect_refused(train({"--overwrite"}, {{"STARPU_SCHED", "other"}, {"STARPU_SCHED_LIB", "/nowhere/libother.so"}}),
                 {"STARPU_SCHED='other'", "STARPU_SCHED_LIB", "1.4"});
  const Output help = train({}, {{"STARPU_SCHED", "help"}});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("prorata "), std::string::npos);
  EXPECT_NE(help.out.find("eager "), std::string::npos);
}

TEST_F(Program, RefusesVariablesThatStarpuCouldNotWorkWith) {
  expect_refused(train({}, {{"STARPU_NCPU", "abc"}}), {"STARPU_NCPU", "abc"});
  expect_refused(train({}, {{"STARPU_NCPU", "-2"}}), {"STARPU_NCPU"});
  expect_refused(train({}, {{"STARPU_NCPU", "0"}}), {"no worker"});
  expect_refused(train({}, {{"STARPU_CALIBRATE", "yes"}}), {"STARPU_CALIBRATE"});
  write("file", "x");
  expect_refused(train({}, {{"STARPU_PERF_MODEL_DIR", (folder() / "file" / "below").string()}}),
                 {"STARPU_PERF_MODEL_DIR"});
}

TEST_F(Program, RunsWhereItsModelsCannotBeKept) {
  write("file", "x");
  const Output o =
      train({"--epochs", "1"},
            {{"STARPU_PERF_MODEL_DIR", ""}, {"XDG_CACHE_HOME", ""}, {"STARPU_HOME", (folder() / "file").string()}});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("STARPU_PERF_MODEL_DIR"), std::string::npos);
}

TEST_F(Program, RunsUnderALimitOfSubmittedTasks) {
  const Output o =
      train({"--epochs", "1"}, {{"STARPU_LIMIT_MAX_SUBMITTED_TASKS", "2"}, {"STARPU_LIMIT_MIN_SUBMITTED_TASKS", "1"}});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("STARPU_LIMIT"), std::string::npos);
}

TEST_F(Program, RefusesACheckpointThatIsNotOne) {
  ASSERT_EQ(train({"--epochs", "1"}).code, 0);
  const std::string good = read(folder() / "run/checkpoint/model.safetensors");
  const auto refused = [&](const std::string& content, const std::vector<std::string>& words) {
    write("bad.safetensors", content);
    std::vector<std::string> expected = words;
    expected.push_back("bad.safetensors");
    expect_refused(run({"eval", "bad.safetensors", "--model", "small.toml", "--dataset", "synthetic"}), expected);
  };
  for (const std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{40}, good.size() - 1})
    refused(good.substr(0, length), {});
  refused(std::string(200, 'x'), {});
  refused(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + good.substr(8), {"header"});
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_EQ(from.size(), to.size());
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  refused(edited("F32", "F64"), {"F32"});
  refused(edited("[2,1,3,3]", "[1,2,3,3]"), {"shape"});
  refused(edited("conv.weight", "conw.weight"), {"conw.weight"});
  refused(edited("[0,72]", "[9,72]"), {"data_offsets"});
  expect_refused(run({"eval", "none", "--model", "small.toml", "--dataset", "synthetic"}), {"none"});
  expect_refused(run({"eval", "run", "--model", "mlp"}), {"model.safetensors", "mlp"});
  expect_refused(run({"eval", "--model", "mlp"}), {"checkpoint"});
}

}  // namespace
}  // namespace prorata::test
