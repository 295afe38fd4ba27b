// A client with a reactor and a TCP transport of its own. A thread that waits for a result drives
// the reactor. The public API and the command line are built on it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "client/core.h"
#include "runtime/epoll_source.h"
#include "runtime/reactor.h"
#include "runtime/task.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcloud {

/// "host:port[,host:port…]" as TCP locators; INVALID_ARGUMENT names what is wrong.
Result<std::vector<Locator>> parse_cluster(std::string_view cluster);

class BlockingClient {
 public:
  struct Options {
    std::vector<Locator> coordinators;
    Duration timeout = 30s;
    Duration poll_for = 50us;
  };
  explicit BlockingClient(Options options);
  ~BlockingClient();
  BlockingClient(const BlockingClient&) = delete;
  BlockingClient& operator=(const BlockingClient&) = delete;

  ClientCore& core() { return core_; }
  Reactor& reactor() { return reactor_; }
  /// A second client of the same cluster on this one's reactor, with its own connections. Must not
  /// outlive this.
  std::unique_ptr<ClientCore> another_core();

  int descriptor() const { return events_.descriptor(); }

  /// Runs one task until it is done. Not from inside a task.
  template <typename T>
  T run(Task<T> task) {
    std::optional<T> result;
    TaskScope scope(reactor_);
    // Deferred to a turn, because the reactor's time may be that of its last turn.
    reactor_.defer([&] { scope.spawn(keep(std::move(task), result)); });
    reactor_.run_until([&] { return result.has_value(); });
    return std::move(*result);
  }

 private:
  template <typename T>
  static Task<void> keep(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }

  ClientCore::Options core_options_;
  SystemClock clock_;
  EpollSource events_;
  Reactor reactor_;
  TcpTransport transport_;
  ClientCore core_;
};

}  // namespace ramcloud
