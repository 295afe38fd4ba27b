// Finds the log of a dead master: asks backups what they have of it, and decides where it ends
// (docs/design/recovery.md, "Where a log ends"). It goes on asking until that is known.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/core/recovery_calls.h"
#include "log/log_end.h"

namespace ramcloud {

/// A log that can be recovered.
struct FoundLog {
  log::LogEnd end;  // known()
  /// By falling id; of servers that were UP.
  std::vector<wire::RecoverySegment> segments;
  uint64_t bytes = 0;
  /// When the last answer came that could have supplied the digest.
  Time digest_at{};
};

class LogQuery {
 public:
  struct Options {
    Duration timeout = 10s;  // of a page: replicas are read for it
    Duration retry_min = 50ms;
    Duration retry_max = 2s;
    /// Between two looks without news.
    Duration retry_interval = 2s;
    /// Once the end is known, so long others may offer themselves as sources.
    Duration gather = 50ms;
    /// So long after its crash a server may come back with its volume.
    Duration returning = std::chrono::minutes(10);
  };
  /// Closed replicas of segments from `scan_closed_from` on are read as well: one of them was
  /// found damaged. `go_on` is asked when latest() has changed.
  LogQuery(Reactor& reactor, ClusterState& state, RecoveryCalls& calls, const Options& options,
           uint64_t master_id, uint64_t scan_closed_from, std::function<bool()> go_on);

  /// Ends when the end of the log is known; with nothing, when it is not wanted any more.
  Task<std::optional<FoundLog>> find();
  /// Servers came or went.
  void membership_changed();
  /// The last decision: says which replicas are missing.
  const log::LogEnd& latest() const { return latest_; }
  size_t answered() const { return answers_.size(); }
  /// What an operator would have to give up, at most so many segments of it. Nothing: somebody may
  /// still bring what is missing, or closed heads are being read for their digests.
  std::optional<log::LossToAccept> loss_to_accept(size_t most) const;
  bool reads_digests() const { return reads_digests_; }
  /// Every server that is UP has answered.
  bool all_heard() const;

 private:
  /// Where a replica is.
  struct Place {
    uint64_t server_id = 0;
    uint32_t frame = 0;
    bool primary = false;
  };
  struct Answer {
    std::vector<log::FoundReplica> replicas;
    std::vector<Place> places;
    std::set<uint64_t> heard;
    Time at{};                             // when the last page came
    uint64_t scanned_from = ~uint64_t{0};  // closed replicas from here on were to be read
  };
  Task<void> ask(uint64_t server_id);
  Task<bool> read_pages(uint64_t server_id, Answer& answer);
  bool take(uint64_t server_id, const wire::RecoveryQueryReply& page, Answer& answer) const;
  void ask_those_who_are_up();
  void ask_for_versions(uint64_t segment_id);
  void look_for_digests();
  bool ask_to_read_closed();
  std::set<uint64_t> expected() const;
  log::AcceptedLoss accepted() const;
  log::LogEnd decide();
  FoundLog found() const;
  void wake();

  Reactor& reactor_;
  ClusterState& state_;
  RecoveryCalls& calls_;
  const Options& options_;
  uint64_t master_id_;
  uint64_t scan_closed_from_;
  std::function<bool()> go_on_;
  std::map<uint64_t, Answer> answers_;  // by server
  std::set<uint64_t> asking_;
  std::vector<Place> places_;  // of those that were decided about
  log::LogAnswers decided_;    // by the last decision
  log::LogEnd latest_;
  bool reads_digests_ = false;
  Event news_;
  TaskScope scope_;  // last: calls end before what they use
};

}  // namespace ramcloud
