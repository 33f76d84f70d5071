// Another program, run to its end: what it said, how it ended.
//
// It gets this process's environment with some variables changed, nothing on standard input, and stays in this
// process's group: an interrupt from the terminal reaches it, too. It is never left behind: when its time is up, or
// when StopSignal has caught a signal, it is asked to end (SIGTERM) and ended (SIGKILL) if it does not within five
// seconds.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace prorata {

struct ChildResult {
  enum class End { exited, signalled, timed_out, stopped, not_found };
  End end;
  int code;              // exit code, or the signal that ended it
  std::string out, err;  // standard output and error

  bool succeeded() const { return end == End::exited && code == 0; }
};

// `program` is a path, or a name that is looked up in PATH; arguments[0] is the first one behind its name. An empty
// value takes the variable away. std::runtime_error: it cannot be started, for another reason than that it is not
// there.
ChildResult run_child(const std::string& program, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment, double timeout_seconds);

}  // namespace prorata
