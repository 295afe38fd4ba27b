// A server's part in failure detection: it pings peers that have not answered for a while, reports
// those that do not answer to the coordinator, and probes a peer when the coordinator asks it to
// (docs/design/coordinator.md#failure-detection). Only the coordinator decides that a server has
// crashed.
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
    Duration interval = 100ms;     // between two pings; each goes to a random peer
    Duration quiet = 200ms;        // a peer that answered a call of ours since then is not pinged
    Duration timeout = 1s;         // of one ping
    Duration lateness = 200ms;     // if our own timers are this late, measurements do not count
    Duration report_timeout = 1s;  // of a report to the coordinator
    Duration between_reports = 50ms;  // about one peer
  };
  /// Answers kProbePeer from now on. All arguments outlive it, and are used only on the reactor of
  /// `rpc`.
  PeerPings(RpcClient& rpc, ServiceRegistry& registry, const ServerList& servers,
            std::vector<Locator> coordinators, MetricsRegistry& metrics, Options options);

  /// This server is enlisted as `own_id`: starts pinging.
  void start(uint64_t own_id) { own_id_ = own_id; }
  /// A call of ours to this peer failed: its connection was refused or broke. Cheap when called
  /// often.
  void connection_failed(uint64_t server_id);

 private:
  void ping_one();
  Task<void> ping(uint64_t server_id, Locator locator);
  bool wants_ping(const ListedServer& server) const;
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
  uint64_t own_id_ = 0;                // 0: not enlisted yet
  uint32_t probes_asked_for_ = 0;      // outstanding probes
  std::map<uint64_t, Time> reported_;  // time of the last report, by peer
  Counter& pings_;
  Counter& failed_pings_;
  Counter& reports_;
  Punctuality punctuality_;  // each of its ticks pings
  TaskScope scope_;          // last member: tasks end before what they use
};

}  // namespace ramcloud::server
