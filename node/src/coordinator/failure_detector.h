// Finds servers that are dead, by probing each (thin: the coordinator is the only observer). A
// refused connection is strong evidence and quick; silence may be a slow machine and takes longer.
// The observer doubts itself first: when its own timers ran late, its measurements are worth
// nothing.
#pragma once

#include <deque>
#include <map>

#include "base/metrics.h"
#include "coordinator/changes.h"
#include "coordinator/cluster_state.h"
#include "coordinator/membership.h"
#include "coordinator/notifier.h"
#include "rpc/rpc.h"

namespace ramcloud {

class FailureDetector {
 public:
  struct Options {
    Duration interval = 500ms;       // between the probes of one server
    Duration timeout = 1s;           // of one probe
    uint32_t failures = 3;           // in a row, before a verdict
    uint32_t probes_of_suspect = 3;  // sent at the same time to one that failed before
    // Without any answer, unless connections are refused (then it is quick). Long: as long as
    // nothing recovers a dead server's data, a server that hangs for some seconds is better waited
    // for.
    Duration silence = 10s;
    /// The same of a server that never answered yet: names of pods that have just started take up
    /// to half a minute to be known everywhere.
    Duration silence_at_first = 60s;
    Duration lateness = 200ms;     // of our own timers: verdicts are discarded
    Duration condemn_window = 5s;  // at most max(1, 10 %) of the servers in this time
  };
  FailureDetector(RpcClient& rpc, ClusterState& state, TermClaims& term_claims,
                  Membership& membership, Notifier& notifier, Changes& changes,
                  MetricsRegistry& metrics, Options options);

  /// Starts probing every server that is UP and is not probed yet.
  void watch_all();

 private:
  struct Suspicion;  // what has been seen of one server
  enum class Kind : uint8_t { kAnswered, kRefused, kSilent };
  struct Outcome {
    Kind kind = Kind::kAnswered;
    std::string error;  // of a probe that failed
  };
  Task<void> watch(uint64_t server_id);
  Task<Outcome> probe(uint64_t server_id);
  Task<Outcome> probe_again(uint64_t server_id);
  void note_stats(uint64_t server_id, const wire::ServerStats& stats);
  void set_suspected(uint64_t server_id, bool suspected);
  std::string verdict(uint64_t server_id, const Suspicion& suspicion) const;
  void condemn(uint64_t server_id, std::string reason);
  void acquit(uint64_t server_id);
  Status objection(uint64_t server_id) const;
  Task<void> record_crash(uint64_t server_id, std::string reason);
  bool observer_late() const { return reactor_.now() - heartbeat_due_ > options_.lateness; }
  void heartbeat();
  bool may_condemn();

  Reactor& reactor_;
  RpcClient& rpc_;
  ClusterState& state_;
  TermClaims& term_claims_;
  Membership& membership_;
  Notifier& notifier_;
  Changes& changes_;
  Options options_;
  Counter& probes_;
  Counter& failed_probes_;
  Counter& condemned_;
  Counter& discarded_;
  Counter& limited_;
  std::map<uint64_t, bool> verdicts_;  // that a flow is writing, by server: does it stand?
  std::deque<Time> condemnations_;     // of the last condemn_window
  uint64_t epoch_ = 0;  // rises whenever we were late: older measurements do not count
  Time heartbeat_due_;
  Timer heartbeat_timer_;
  TaskScope scope_;
};

}  // namespace ramcloud
