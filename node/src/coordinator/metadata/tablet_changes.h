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

/// One or several adjacent whole tablets of a table.
struct TabletRange {
  uint64_t table_id = 0;
  uint64_t start_hash = 0;  // inclusive
  uint64_t end_hash = 0;    // inclusive
};

/// A recovery master has all objects of the range.
struct HandOver {
  TabletRange range;
  uint64_t server_id = 0;          // the new owner
  uint64_t creation_position = 0;  // in the new owner's log
  uint64_t attempt = 0;            // the recovery attempt that this completes
};

/// All operations are idempotent: if done already, the answer is OK and nothing changes. Common
/// errors: NOT_FOUND: the table was dropped or never existed; RETRY: it is being created;
/// UNSUPPORTED: the metadata format has no field for it; INVALID_ARGUMENT: these are not whole
/// tablets; and those of Ledger::commit().
class TabletChanges {
 public:
  /// `on_changed` is called when a table's tablets have changed, durably.
  TabletChanges(ClusterState& state, Ledger& ledger, TableWriter& writer,
                std::function<void(uint64_t table_id)> on_changed)
      : state_(state), ledger_(ledger), writer_(writer), on_changed_(std::move(on_changed)) {}

  /// Splits tablets of a table at these hashes, many in one transaction.
  /// INVALID_ARGUMENT: the server of one is UP and would have to be told, or there would be too
  /// many tablets. After an error some may be split.
  Task<Status> split(uint64_t table_id, std::vector<uint64_t> at);
  /// Records that an attempt to recover these tablets begins. WRONG_VERSION: the attempt is not
  /// higher than all before. INVALID_ARGUMENT: one of them belongs to a server that is UP; nothing
  /// is done then.
  Task<Status> set_recovering(std::vector<TabletRange> ranges, uint64_t attempt);
  /// In one transaction, shared by hand-overs that wait for the same lock. WRONG_VERSION: another
  /// attempt is running; CRASHED: the new owner is not UP.
  Task<Status> hand_over(HandOver wanted);

 private:
  struct Waiting {
    HandOver wanted;
    std::optional<Status> outcome;
  };
  class Batch;
  Task<void> hand_over_waiting(const AsyncMutex::Lock& lock);
  Status cut(TableRecord& table, uint64_t at, size_t others) const;
  Status mark(TableRecord& table, const TabletRange& range, uint64_t attempt) const;

  ClusterState& state_;
  Ledger& ledger_;
  TableWriter& writer_;
  std::function<void(uint64_t)> on_changed_;
  std::deque<std::shared_ptr<Waiting>> waiting_;
};

}  // namespace ramcloud
