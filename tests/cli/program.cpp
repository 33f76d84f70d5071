#include "tests/cli/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

namespace prorata::test {
namespace fs = std::filesystem;

Program::Program() {
  std::string name = (fs::temp_directory_path() / "prorata-cli-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  folder_ = name;
  write("small.toml", kNetwork);
}

Program::~Program() { fs::remove_all(folder_); }

Output Program::run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment,
                    const std::function<void(pid_t)>& meanwhile) {
  const fs::path out = folder_ / "stdout", err = folder_ / "stderr";
  const pid_t child = fork();
  if (child == 0) {
    if (chdir(folder_.c_str()) != 0) _exit(99);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), STDERR_FILENO);
    setenv("STARPU_NCPU", "1", 1);
    setenv("STARPU_PERF_MODEL_DIR", (folder_ / "models").c_str(),
           1);  // a look at others' models could find them strange
    unsetenv("STARPU_SILENT");
    for (const auto& [name, value] : environment)
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    std::vector<std::string> command = launcher_;
    command.push_back(PRORATA_PROGRAM);
    command.insert(command.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv.front(), argv.data());
    _exit(99);
  }
  int status = 0;
  while (waitpid(child, &status, meanwhile ? WNOHANG : 0) == 0) {
    meanwhile(child);
    poll(nullptr, 0, 10);
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(out), read(err)};
}

Output Program::train(std::vector<std::string> more, const std::map<std::string, std::string>& environment) {
  std::vector<std::string> arguments{"train", "--model", "small.toml", "--dataset", "synthetic", "--out", "run"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(arguments, environment);
}

fs::path Program::write(const std::string& name, const std::string& content) const {
  std::ofstream(folder_ / name, std::ios::binary) << content;
  return folder_ / name;
}

nlohmann::json Program::summary() const { return nlohmann::json::parse(read(folder_ / "run" / "summary.json")); }

void Program::expect_refused(const Output& o, const std::vector<std::string>& words) {
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_EQ(o.out, "");
  for (const std::string& word : words) EXPECT_NE(o.err.find(word), std::string::npos) << word << " not in: " << o.err;
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace prorata::test
