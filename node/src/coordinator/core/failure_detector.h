// Finds dead servers. The coordinator and the servers probe; only the coordinator decides, by the
// rules of suspicion.h. Two rules protect against its own failures: measurements while its timers
// ran late do not count, and while fewer than half of the cluster is accounted for, silence
// condemns no server. docs/design/coordinator.md#failure-detection.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "coordinator/core/changes.h"
#include "coordinator/core/membership.h"
#include "coordinator/core/notifier.h"
#include "coordinator/core/suspicion.h"
#include "coordinator/metadata/cluster_state.h"
#include "rpc/peer_probe.h"
#include "rpc/rpc.h"

namespace ramcloud {

class FailureDetector {
 public:
  struct Options {
    /// The time between two probes of one server, in a small cluster; in a large one up to a
    /// second.
    Duration interval = 100ms;
    Duration timeout = 1s;  // of one probe; at most a quarter of the silence
    /// The time between two probes of a server whose connections are refused or break.
    Duration again = 50ms;
    uint32_t probes_of_suspect = 3;  // sent at the same time to a server whose last probe failed
    Thresholds thresholds;
    Duration lateness = 200ms;  // if our own timers are this late, measurements do not count
  };
  FailureDetector(RpcClient& rpc, ClusterState& state, Ledger& ledger, TermClaims& term_claims,
                  Membership& membership, Notifier& notifier, Changes& changes,
                  MetricsRegistry& metrics, Options options);

  /// Starts probing every server that is UP and is not probed yet.
  void watch_all();
  /// Who gave a hint: another server, or the platform through the admin API.
  enum class Source : uint8_t { kServer, kPlatform };
  /// This server may be dead: it is probed at once. A hint alone never causes a verdict.
  void hint(uint64_t server_id, Source source);

  /// Probes the server's address now, and asks a peer to probe it.
  Task<Examination> examine(uint64_t server_id);

 private:
  struct Watch;  // of one server
  struct Verdict {
    Evidence evidence = Evidence::kNone;
    std::string reason;
    bool stands = true;  // false: it gave a sign of life since
  };
  // Watching one server.
  using WatchPtr = std::shared_ptr<Watch>;
  Task<void> watch(uint64_t server_id, WatchPtr watch);
  Task<void> round(uint64_t server_id, WatchPtr watch);
  Task<ProbeResult> probe(uint64_t server_id);
  Task<ProbeResult> probe_again(uint64_t server_id);
  wire::PeerState state_of(uint64_t server_id, wire::PeerState probed) const;
  bool address_is_taken(uint64_t server_id) const;
  void answered(uint64_t server_id, Watch& watch);
  void note_stats(uint64_t server_id, const RpcReply& reply);
  void set_suspected(uint64_t server_id, bool suspected);
  Time next_round(const Watch& watch, Time begun) const;
  Time with_tick(Time next, Time begun) const;
  Duration probe_timeout() const;
  // Asking peers.
  Task<void> ask_peer(uint64_t server_id, WatchPtr watch);
  void vouched(uint64_t server_id, Watch& watch);
  struct PeerSays {
    uint64_t peer = 0;  // 0: no peer had a result
    wire::PeerState state = wire::PeerState::kVoid;
  };
  Task<PeerSays> indirect_probe(uint64_t server_id);
  Task<PeerSays> own_probe(uint64_t server_id);
  std::vector<uint64_t> peers_of(uint64_t server_id) const;
  uint32_t observers_of(uint64_t server_id) const;
  // The cluster as a whole.
  void tick(Duration late);
  void take_stock();
  Accounts accounts() const;
  bool verdicts_are_due() const;
  void show(const Accounts& accounts);
  std::vector<std::string> waits_for() const;
  // Verdicts.
  void judge(uint64_t server_id, const Watch& watch);
  void acquit(uint64_t server_id);
  Status objection();
  std::vector<Membership::Verdict> standing_verdicts();
  Task<void> record_verdicts();

  Reactor& reactor_;
  RpcClient& rpc_;
  ClusterState& state_;
  Ledger& ledger_;
  TermClaims& term_claims_;
  Membership& membership_;
  Notifier& notifier_;
  Changes& changes_;
  Options options_;
  Counter& probes_;
  Counter& failed_probes_;
  Counter& condemned_;
  Counter& condemned_refused_;
  Counter& condemned_silent_;
  Counter& discarded_;
  Counter& hints_;
  Counter& platform_hints_;
  std::map<wire::PeerState, Counter*> indirect_probes_;
  std::map<uint64_t, WatchPtr> watches_;
  std::map<uint64_t, Verdict> verdicts_;  // verdicts being written
  std::vector<uint64_t> writing_;         // the ones in the present change
  bool recording_ = false;
  std::optional<Time> sound_since_;  // none: silence condemns no server
  Punctuality punctuality_;
  TaskScope scope_;
};

}  // namespace ramcloud
