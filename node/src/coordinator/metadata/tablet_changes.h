// Changes of tablets by recoveries: split, mark, hand over. Each change is conditional on the state
// that it was made for. docs/design/coordinator.md, "Tablets".
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/metadata/table_writer.h"

namespace ramcloud {

/// Whole tablets of a table, one or several that follow each other.
struct TabletRange {
  uint64_t table_id = 0;
  uint64_t start_hash = 0;  // inclusive
  uint64_t end_hash = 0;    // inclusive
};

/// A recovery master has all objects of the range.
struct HandOver {
  TabletRange range;
  uint64_t server_id = 0;          // whose they are from then on
  uint64_t creation_position = 0;  // in its log
  uint64_t attempt = 0;            // of recovering them, that this completes
};

/// All of it can be repeated: what is done already is OK, and changes nothing. Beside what is said
/// below, each answers NOT_FOUND: the table was dropped, or never there; RETRY: it is being
/// created; UNSUPPORTED: the metadata has a format without a place for it; INVALID_ARGUMENT: these
/// are no whole tablets; and what Ledger::commit() says.
class TabletChanges {
 public:
  /// `on_changed` is called when a table's tablets have changed, durably.
  TabletChanges(ClusterState& state, Ledger& ledger, TableWriter& writer,
                std::function<void(uint64_t table_id)> on_changed)
      : state_(state), ledger_(ledger), writer_(writer), on_changed_(std::move(on_changed)) {}

  /// Makes a tablet begin at this hash. INVALID_ARGUMENT: its server is UP, and would have to know;
  /// there would be too many tablets.
  Task<Status> split(uint64_t table_id, uint64_t at);
  /// An attempt to recover these begins; it is higher than all before, or WRONG_VERSION. Nothing is
  /// done unless all are tablets of servers that are not UP (INVALID_ARGUMENT).
  Task<Status> set_recovering(std::vector<TabletRange> ranges, uint64_t attempt);
  /// In one transaction, which hand-overs that wait for the same lock share. WRONG_VERSION: this is
  /// not the attempt that runs; CRASHED: the new owner is not UP.
  Task<Status> hand_over(HandOver wanted);

 private:
  struct Waiting {
    HandOver wanted;
    std::optional<Status> outcome;
  };
  class Batch;
  Task<void> hand_over_waiting(const AsyncMutex::Lock& lock);
  Status mark(TableRecord& table, const TabletRange& range, uint64_t attempt) const;

  ClusterState& state_;
  Ledger& ledger_;
  TableWriter& writer_;
  std::function<void(uint64_t)> on_changed_;
  std::deque<std::shared_ptr<Waiting>> waiting_;
};

}  // namespace ramcloud
