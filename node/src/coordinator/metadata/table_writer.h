// Writes tables: one record, or, since format 3 of the metadata, a record and chunks of tablets, in
// as many transactions as they need. If the leader dies in between, the next one can finish the
// write. docs/design/coordinator.md, "Tablets".
#pragma once

#include <functional>
#include <vector>

#include "coordinator/metadata/ledger.h"

namespace ramcloud {

/// Tablets in a chunk of a new layout. Splits add tablets to a chunk up to the maximum.
inline constexpr size_t kTabletsInAChunk = 8;
inline constexpr size_t kMostTabletsInAChunk = 16;
/// Operations in one transaction: etcd accepts 128 by default.
inline constexpr size_t kOperationsAtOnce = 100;

class TableWriter {
 public:
  TableWriter(ClusterState& state, Ledger& ledger, size_t operations_at_once = kOperationsAtOnce)
      : state_(state), ledger_(ledger), operations_at_once_(operations_at_once) {}

  /// Records `table`, which is new or differs from the recorded one. Raises the revisions of the
  /// parts that differ, and applies it to the state. With revision 0 the table's own revision
  /// rises, too. Without `chunks` it gets a new layout. `with` is added to the first transaction.
  /// `objection` is used only if one transaction is enough. Errors: those of Ledger::commit().
  Task<Status> write(const AsyncMutex::Lock& lock, TableRecord table, MetadataChange with = {},
                     Ledger::Objection objection = nullptr);
  /// The same for several tables, which share transactions if they fit.
  Task<Status> write_all(const AsyncMutex::Lock& lock, std::vector<TableRecord> tables);
  /// The same in one transaction; INVALID_ARGUMENT if they need more.
  Task<Status> write_at_once(const AsyncMutex::Lock& lock, std::vector<TableRecord> tables);
  /// The most operations that write() needs for this table.
  size_t operations(const TableRecord& table) const;
  bool fits(const TableRecord& table, size_t others = 0) const {
    return operations(table) + others <= operations_at_once_;
  }
  /// Removes the table and all its chunks. Errors: those of Ledger::commit().
  Task<Status> remove(const AsyncMutex::Lock& lock, uint64_t table_id);

 private:
  struct Writing;
  /// Adds one operation to a change that will have this revision.
  using Operation = std::function<void(MetadataChange&, uint64_t revision)>;
  std::vector<Operation> operations_for(Writing& writing) const;
  static Operation announce(const Writing& writing);
  void apply(Writing& writing);

  ClusterState& state_;
  Ledger& ledger_;
  size_t operations_at_once_;
};

/// Splits the chunk with this hash in two if it has too many tablets.
void halve_full_chunk(TableRecord& table, uint64_t hash);

/// True if they differ in more than the revision.
bool differs(const TabletRecord& a, const TabletRecord& b);

/// The tablets of a new table of this span, not placed yet.
std::vector<TabletRecord> tablets_of_span(uint32_t span);

/// Decodes a record into the state, and adds its tablets to their table. CORRUPT.
Status read_table_record(const std::string& key, const std::string& bytes, ClusterState& state);
Status read_tablet_chunk(const std::string& key, const std::string& bytes, ClusterState& state);
/// Called after all records: fills in what earlier formats did not record.
Status complete_tables(ClusterState& state);

}  // namespace ramcloud
