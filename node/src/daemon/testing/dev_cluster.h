// For tests: a real `ramcloudd dev` as a child process, on ports that the kernel chose.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/testing/temporary_folder.h"

namespace ramcloud::daemon {

class DevCluster {
 public:
  /// Starts it with these arguments in addition to --listen and --dir, and waits until it prints
  /// "ready". Ends the test program if it does not.
  explicit DevCluster(std::vector<std::string> arguments);
  /// Stops it and removes its folder; the test fails if its exit code is not 0.
  ~DevCluster();
  DevCluster(const DevCluster&) = delete;
  DevCluster& operator=(const DevCluster&) = delete;

  /// "host:port" of the coordinator.
  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = -1;
  const TemporaryFolder folder_;
  std::string address_;
};

}  // namespace ramcloud::daemon
