// Exit codes: a contract with users, see docs/cli.md. A run that a signal stopped exits with 128 + its number.
#pragma once

namespace prorata {

enum ExitCode { exit_done = 0, exit_failed = 1, exit_usage = 2, exit_diverged = 3 };

}  // namespace prorata
