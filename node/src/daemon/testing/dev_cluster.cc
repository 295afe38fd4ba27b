#include "daemon/testing/dev_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace ramcloud::daemon {
namespace {

/// The first line of the pipe that begins with "ready:"; empty if it ended before.
std::string ready_line(int pipe) {
  FILE* lines = fdopen(pipe, "r");
  std::string found;
  char line[4096];
  while (found.empty() && std::fgets(line, sizeof line, lines) != nullptr) {
    if (std::string(line).starts_with("ready:")) found = line;
  }
  // The pipe stays open, because the daemon may print more.
  return found;
}

}  // namespace

DevCluster::DevCluster(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {RAMCLOUDD_PATH, "dev", "--listen", "127.0.0.1:0", "--dir",
                                       folder_.path(), "--log-level", "error"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  const int failed = posix_spawn(&pid_, RAMCLOUDD_PATH, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  const std::string line = failed == 0 ? ready_line(ends[0]) : "";
  const auto at = line.find("--cluster ");
  if (at == std::string::npos) {
    std::fprintf(stderr, "%s did not become ready\n", RAMCLOUDD_PATH);
    std::_Exit(1);
  }
  const size_t begin = at + 10;
  address_ = line.substr(begin, line.find(' ', begin) - begin);
}

DevCluster::~DevCluster() {
  kill(pid_, SIGTERM);
  int status = 0;
  waitpid(pid_, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "ramcloudd dev ended with status " << status;
}

}  // namespace ramcloud::daemon
