// What the connections of one TcpTransport share. Sessions hold it too, so that they may outlive
// the transport.
#pragma once

#include <algorithm>
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
  Counter& protocol_errors;
  Counter& slow_readers;
};

struct TcpContext {
  TcpContext(Reactor& r, EpollSource& s, const TcpOptions& o, MetricsRegistry* metrics);

  Reactor& reactor;
  EpollSource& source;
  const TcpOptions options;
  std::unique_ptr<MetricsRegistry> own_registry;  // if none was given
  TcpCounters counters;
  Resolver resolver;
  /// What each host name meant last, for when it cannot be looked up: that the name service is down
  /// says nothing about the peer.
  std::map<std::string, Resolver::Addresses> known_addresses;
  std::vector<class TcpSession*> sessions;  // those that are not broken, for shutdown and upkeep
  Timer upkeep;  // once a second while somebody needs it: hello deadlines, big idle buffers
  std::function<bool()> upkeep_of_server;

  void want_upkeep() {
    if (!upkeep.running()) upkeep.start_after(1s);
  }

 private:
  void on_upkeep();
};

/// Logs a misbehaving peer: one line for each connection that is closed for it.
void log_closed(const char* why, const std::string& peer);

}  // namespace ramcloud::tcp
