// Finds the log of a dead master: asks backups which replicas they have, and decides where the log
// ends (docs/design/recovery.md#where-a-log-ends). It repeats its questions until that is known.
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
  /// Their sources are servers that were UP. Not null.
  std::shared_ptr<const DeadLog> dead =
      std::make_shared<const DeadLog>(std::vector<wire::RecoverySegment>());
  uint64_t bytes = 0;
  /// The time of the last answer that could have had the deciding digest.
  Time digest_at{};
  /// Servers whose replicas are considered: those that answered, with earlier ids of their volumes,
  /// and those that were UP and could not answer.
  std::set<uint64_t> considered;

  /// Something of it is lost. A volume that comes back may have it.
  bool lacks_something() const { return end.outcome != log::LogEnd::Outcome::kComplete; }
};

/// Servers that are UP and cannot say which replicas they have, and since when. A recovery keeps it
/// for all its queries.
using UnableSince = std::map<uint64_t, Time>;

class LogQuery {
 public:
  struct Options {
    Duration timeout = 10s;  // for a page; the backup reads replicas to answer it
    Duration retry_min = 50ms;
    Duration retry_max = 2s;
    /// The time between two checks without news.
    Duration retry_interval = 2s;
    /// Once the end is known, it waits this long for more sources.
    Duration gather = 50ms;
    /// For this long after its crash, a server may come back with its volume. For as long, one whose
    /// device failed may answer after all.
    Duration returning = std::chrono::minutes(10);
  };
  /// `scan_closed_from`: closed replicas of segments from this one on are read as well, because one
  /// was found damaged. `go_on` is called when latest() has changed; false ends the query.
  LogQuery(Reactor& reactor, ClusterState& state, RecoveryCalls& calls, const Options& options,
           uint64_t master_id, uint64_t scan_closed_from, UnableSince& unable_since,
           std::function<bool()> go_on);

  /// Returns when the end of the log is known; none if `go_on` ended the query.
  Task<std::optional<FoundLog>> find();
  /// Servers enlisted or crashed.
  void membership_changed();
  /// The last decision, with the missing replicas.
  const log::LogEnd& latest() const { return latest_; }
  size_t answered() const { return answers_.size(); }
  /// The loss that an operator would have to accept, with at most `most` segments. None: a server
  /// may still have what is missing, or closed heads are being read for their digests.
  std::optional<log::LossToAccept> loss_to_accept(size_t most) const;
  bool reads_digests() const { return reads_digests_; }
  /// Crashed servers that may have replicas of this log, and whose volumes have not come back.
  std::vector<uint64_t> away() const;
  /// Every server that is UP has answered, or said that it cannot.
  bool all_heard() const;
  /// Servers that are UP and whose last answer was that they cannot say which replicas they have.
  const std::map<uint64_t, Status>& unable() const { return unable_; }
  /// Servers that are UP, and from which a page did not come within options.timeout: their devices
  /// are slow, or hang. Until a page comes.
  const std::set<uint64_t>& silent() const { return silent_; }

 private:
  /// The place of a replica.
  struct Place {
    uint64_t server_id = 0;
    uint32_t frame = 0;
    bool primary = false;
  };
  struct Answer {
    std::vector<log::FoundReplica> replicas;
    std::vector<Place> places;
    std::set<uint64_t> heard;
    Time at{};                             // time of the last page
    uint64_t scanned_from = ~uint64_t{0};  // the last question asked to read closed replicas from
                                           // here on
    uint32_t next_frame = 0;               // where the next page begins; 0: there is none
  };
  Task<void> ask(uint64_t server_id);
  Task<Status> read_pages(uint64_t server_id, Answer& answer);
  void note_unable(uint64_t server_id, const Status& why);
  void forget_unable(uint64_t server_id);
  bool given_up(uint64_t server_id) const;
  bool take(uint64_t server_id, const wire::RecoveryQueryReply& page, Answer& answer) const;
  void ask_those_who_are_up();
  void ask_to_read(uint64_t segment_id);
  void look_for_digests();
  using FallingIds = std::set<uint64_t, std::greater<>>;
  bool read_more_of(const FallingIds& closed);
  bool ask_to_read_closed();
  std::set<uint64_t> expected() const;
  std::set<uint64_t> unheard() const;
  void erase_own(std::set<uint64_t>& ids) const;
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
  std::map<uint64_t, Status> unable_;
  UnableSince& unable_since_;
  std::set<uint64_t> silent_;
  std::set<uint64_t> asking_;
  std::vector<Place> places_;  // places of the replicas in decided_
  log::LogAnswers decided_;    // the input of the last decision
  log::LogEnd latest_;
  bool reads_digests_ = false;
  Event news_;
  TaskScope scope_;  // last member: calls end before what they use
};

}  // namespace ramcloud
