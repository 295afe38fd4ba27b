// main() of `ramcloud`.
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "base/logging.h"
#include "cli/session.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  // A closed pipe or connection is an error of that write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  ramcloud::set_log_level(ramcloud::LogLevel::kError);  // errors are reported by the commands
  ramcloud::cli::Session session(std::cin, std::cout, std::cerr);
  session.in_is_terminal = isatty(STDIN_FILENO) == 1;
  session.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  session.err_is_terminal = isatty(STDERR_FILENO) == 1;
  return ramcloud::cli::run_cli(argc, argv, session);
}
