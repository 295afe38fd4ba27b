// State that the connections of one TcpTransport share. Sessions hold it too, so that they may
// outlive the transport.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "runtime/epoll_source.h"
#include "runtime/reactor.h"
#include "runtime/resolver.h"
#include "transport/tcp/tcp_stream.h"
#include "transport/tcp/tcp_transport.h"
#include "wire/message_header.h"

namespace ramcloud::tcp {

struct TcpCounters {
  explicit TcpCounters(MetricsRegistry& registry);
  Counter& accepted;
  Counter& connected;
  Counter& refused;      // hellos that we refused, and connections above the limit
  Counter& handed_over;  // to another reactor
  Counter& requests_in;
  Counter& replies_out;
  Counter& requests_out;
  Counter& replies_in;
  Counter& sends;
  Counter& protocol_errors;
  Counter& slow_readers;
  // Counters of the limits of TcpOptions.
  Counter& limited_connections;
  Counter& limited_per_peer;
  Counter& limited_silent;
  Counter& limited_hello_time;
  Counter& limited_message_time;
  Counter& limited_outstanding;
  Counter& limited_buffered;
  Counter& accept_paused;
};

/// The messages that arrived with one event of a connection.
class Arrivals {
 public:
  void begin() { any_ = others_ = false; }
  void add(uint16_t opcode) {
    any_ = true;
    others_ = others_ || !wire::is_heartbeat(opcode);
  }
  bool only_heartbeats() const { return any_ && !others_; }

 private:
  bool any_ = false;
  bool others_ = false;  // than heartbeats
};

struct TcpContext {
  TcpContext(Reactor& r, EpollSource& s, const TcpOptions& o, MetricsRegistry* metrics);

  Reactor& reactor;
  EpollSource& source;
  const TcpOptions options;
  std::unique_ptr<MetricsRegistry> own_registry;  // if none was given
  TcpCounters counters;
  Resolver resolver;
  /// The last addresses of each host name, for lookups that fail: a failure of the name service
  /// does not mean that the peer is down.
  std::map<std::string, Resolver::Addresses> known_addresses;
  std::vector<class TcpSession*> sessions;  // those that are not broken, for shutdown and upkeep
  Timer upkeep;  // once a second while it is needed: hello deadlines, big idle buffers
  std::function<bool()> upkeep_of_server;
  std::function<void()> memory_freed;
  /// Totals of accepted connections; read by the metrics thread, which may outlive this object.
  struct Totals {
    std::atomic<uint64_t> connections{0};
    std::atomic<uint64_t> buffered_bytes{0};
  };
  std::shared_ptr<Totals> totals = std::make_shared<Totals>();

  void want_upkeep() {
    if (!upkeep.running()) upkeep.start_after(1s);
  }
  /// Logs a connection that is closed because of its peer; at most ten lines a second, so that a
  /// flood does not fill the disk.
  void log_closed(const char* why, const std::string& peer);

 private:
  void on_upkeep();
  Time log_second_{};
  uint32_t logged_ = 0;  // lines since then
  uint64_t unlogged_ = 0;
};

}  // namespace ramcloud::tcp
