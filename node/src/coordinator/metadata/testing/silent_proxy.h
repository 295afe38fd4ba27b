// Forwards TCP connections to a server, and can become silent: like a machine that lost power, or a
// pod that lost its network.
#pragma once

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ramcloud::testing {

class SilentProxy {
 public:
  /// Listens on a free port of 127.0.0.1.
  explicit SilentProxy(const HostPort& target);
  ~SilentProxy();
  SilentProxy(const SilentProxy&) = delete;
  SilentProxy& operator=(const SilentProxy&) = delete;

  HostPort address() const { return {"127.0.0.1", port_}; }
  /// From now on no bytes pass, and no connection is closed.
  void fall_silent() { silent_ = true; }

 private:
  void run();
  void accept_one();
  /// False at the end of the connection.
  static bool pass(int from, int to);

  const uint16_t target_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::vector<std::pair<int, int>> connections_;  // client's side, server's side
  std::atomic<bool> silent_ = false;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace ramcloud::testing
