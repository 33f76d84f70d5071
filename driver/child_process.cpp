#include "driver/child_process.h"

#include "driver/stop_signal.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace prorata {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kGrace = std::chrono::seconds(5);
constexpr int kPollMilliseconds = 20;

// A file without a name: no pipe that somebody must keep reading.
class Capture {
 public:
  Capture() : file_(std::tmpfile()) {
    if (!file_) throw std::runtime_error(std::string("no temporary file can be made in /tmp: ") + std::strerror(errno));
  }
  int descriptor() const { return fileno(file_.get()); }
  std::string text() const {
    std::rewind(file_.get());
    std::string all;
    char part[4096];
    for (std::size_t n; (n = std::fread(part, 1, sizeof(part), file_.get())) > 0;) all.append(part, n);
    return all;
  }

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

std::vector<std::string> changed_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    if (!changes.count(std::string(text.substr(0, text.find('='))))) result.emplace_back(text);
  }
  for (const auto& [name, value] : changes)
    if (!value.empty()) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& t : texts) result.push_back(t.data());
  result.push_back(nullptr);
  return result;
}

// The error number of posix_spawnp.
int spawn(pid_t& child, const std::string& program, std::vector<std::string> arguments,
          std::vector<std::string> environment, int out, int err) {
  arguments.insert(arguments.begin(), program);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  const int error = posix_spawnp(&child, program.c_str(), &actions, nullptr, pointers(arguments).data(),
                                 pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Whether it has ended by then.
bool wait_until(pid_t child, int& status, Clock::time_point end, bool heed_signals) {
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) throw std::runtime_error(std::string("waitpid: ") + std::strerror(errno));
    if (Clock::now() >= end || (heed_signals && StopSignal::caught() != 0)) return false;
    poll(nullptr, 0, kPollMilliseconds);
  }
}

}  // namespace

ChildResult run_child(const std::string& program, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment, double timeout_seconds) {
  const Capture out, err;
  pid_t child = 0;
  const int error =
      spawn(child, program, arguments, changed_environment(environment), out.descriptor(), err.descriptor());
  if (error == ENOENT) return {ChildResult::End::not_found, 0, "", ""};
  if (error != 0) throw std::runtime_error(program + " cannot be started: " + std::strerror(error));

  int status = 0;
  const auto limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_seconds));
  const bool ended = wait_until(child, status, Clock::now() + limit, true);
  if (!ended) {
    kill(child, SIGTERM);
    if (!wait_until(child, status, Clock::now() + kGrace, false)) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
  }
  ChildResult result{WIFEXITED(status) ? ChildResult::End::exited : ChildResult::End::signalled,
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), out.text(), err.text()};
  // A signal from the terminal may have ended the child before it was noticed here.
  if (StopSignal::caught() != 0 && !result.succeeded())
    result.end = ChildResult::End::stopped;
  else if (!ended)
    result.end = ChildResult::End::timed_out;
  return result;
}

}  // namespace prorata
