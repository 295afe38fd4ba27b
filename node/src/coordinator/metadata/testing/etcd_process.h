// A real etcd for tests: a process with a fresh folder; it ends with the object.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "base/testing/temporary_folder.h"
#include "base/text.h"

namespace ramcloud::testing {

class EtcdProcess {
 public:
  /// The path of the program: RAMCLOUD_ETCD, or where e2e/kind/components.sh puts it; empty if
  /// there is none.
  static std::string program();

  /// Starts it and waits until it listens. With a folder of certificates (cert.pem, key.pem) it
  /// speaks TLS only, and only with clients that have the same certificate.
  explicit EtcdProcess(std::filesystem::path certificates = {});
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  HostPort address() const { return {"127.0.0.1", port_}; }
  /// Suspends the process (SIGSTOP); returns when it is suspended.
  void freeze();
  void thaw();
  /// kill -9, then a restart with the same data at the same address.
  void crash_and_restart();

 private:
  bool start();
  void kill_and_collect();
  std::filesystem::path certificates_;
  const TemporaryFolder folder_;
  uint16_t port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace ramcloud::testing
