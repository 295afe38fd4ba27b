// Writes tables: one record, or, since format 3 of the metadata, a record and chunks of tablets, in
// as many transactions as they need. If the leader dies in between, the next one can finish the
// write. docs/design/coordinator.md, "Tablets".
#pragma once

#include <functional>
#include <vector>

#include "coordinator/metadata/ledger.h"

namespace ramcloud {

/// Tablets in a chunk of a new layout. Splits add to a chunk until it has the most.
inline constexpr size_t kTabletsInAChunk = 8;
inline constexpr size_t kMostTabletsInAChunk = 16;
/// Operations in one transaction: etcd accepts 128 by default.
inline constexpr size_t kOperationsAtOnce = 100;

class TableWriter {
 public:
  TableWriter(ClusterState& state, Ledger& ledger, size_t operations_at_once = kOperationsAtOnce)
      : state_(state), ledger_(ledger), operations_at_once_(operations_at_once) {}

  /// Records `table`, which is new or differs from what is recorded, raises the revisions of what
  /// differs, and applies it to the state. With revision 0 the table's own revision is raised, too.
  /// Without `chunks` it gets a new layout. `with` goes into the first transaction. `objection` is
  /// asked only if there is one transaction. Errors: those of Ledger::commit().
  Task<Status> write(const AsyncMutex::Lock& lock, TableRecord table, Change with = {},
                     Ledger::Objection objection = nullptr);
  /// The same for several, which share transactions where they fit.
  Task<Status> write_all(const AsyncMutex::Lock& lock, std::vector<TableRecord> tables);
  /// The same in one transaction; INVALID_ARGUMENT if they need more.
  Task<Status> write_at_once(const AsyncMutex::Lock& lock, std::vector<TableRecord> tables);
  /// How many operations write() needs for this table, at most.
  size_t operations(const TableRecord& table) const;
  bool fits(const TableRecord& table, size_t others = 0) const {
    return operations(table) + others <= operations_at_once_;
  }
  /// Removes the table and all its chunks. Errors: those of Ledger::commit().
  Task<Status> remove(const AsyncMutex::Lock& lock, uint64_t table_id);

 private:
  struct Writing;
  /// Adds one operation to a change that will have this revision.
  using Operation = std::function<void(Change&, uint64_t revision)>;
  std::vector<Operation> operations_for(Writing& writing) const;
  void apply(Writing& writing);

  ClusterState& state_;
  Ledger& ledger_;
  size_t operations_at_once_;
};

/// Divides the chunk with this hash in two if it has more tablets than a chunk may.
void halve_full_chunk(TableRecord& table, uint64_t hash);

/// What differs, apart from the revision.
bool differs(const TabletRecord& a, const TabletRecord& b);

/// The tablets of a new table of this span, not placed yet.
std::vector<TabletRecord> tablets_of_span(uint32_t span);

/// Reads a record of a store into the state, and puts its tablets where they belong. CORRUPT.
Status read_table_record(const std::string& key, const std::string& bytes, ClusterState& state);
Status read_tablet_chunk(const std::string& key, const std::string& bytes, ClusterState& state);
/// After all of them: what former formats did not say.
Status complete_tables(ClusterState& state);

}  // namespace ramcloud
