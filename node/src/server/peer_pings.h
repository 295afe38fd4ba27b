// A server's part in failure detection: it pings its peers, tells the coordinator of those that do
// not answer, and looks at one when the coordinator asks it to (docs/design/coordinator.md,
// "Failure detection"). It judges nobody.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/metrics.h"
#include "client/coordinator_link.h"
#include "rpc/peer_probe.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "wire/control_messages.h"

namespace ramcloud::server {

class PeerPings {
 public:
  struct Options {
    Duration interval = 100ms;        // between two pings, each of another peer
    Duration timeout = 1s;            // of one
    Duration lateness = 200ms;        // of our own timers: measurements then do not count
    Duration report_timeout = 1s;     // of a report to the coordinator
    Duration between_reports = 50ms;  // of one peer
  };
  /// Answers kProbePeer from now on. Everything passed in outlives it, and is used on the reactor
  /// of `rpc` only.
  PeerPings(RpcClient& rpc, ServiceRegistry& registry, const ServerList& servers,
            std::vector<Locator> coordinators, MetricsRegistry& metrics, Options options);

  /// This server is enlisted as `own_id`: it pings from now on.
  void start(uint64_t own_id);
  /// A call of ours to this peer failed: its connection was refused or broke. Cheap when it comes
  /// again and again.
  void connection_failed(uint64_t server_id);

 private:
  Task<void> ping_for_ever();
  Task<void> ping(uint64_t server_id, Locator locator);
  const ListedServer* choose() const;
  void report(uint64_t server_id, wire::PeerState state);
  Task<void> send_report(wire::ReportServerRequest request);
  void on_probe_peer(const Request& request);
  Task<void> answer_probe(ReplyHandle handle, uint64_t server_id, Locator locator, Duration limit);

  Reactor& reactor_;
  RpcClient& rpc_;
  Transport& transport_;
  const ServerList& servers_;
  CoordinatorLink coordinator_;
  Options options_;
  uint64_t own_id_ = 0;
  uint32_t probes_asked_for_ = 0;      // that are outstanding
  std::map<uint64_t, Time> reported_;  // when, by peer
  Counter& pings_;
  Counter& failed_pings_;
  Counter& reports_;
  Punctuality punctuality_;
  TaskScope scope_;  // last: flows end before what they use
};

}  // namespace ramcloud::server
