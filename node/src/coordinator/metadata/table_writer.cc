#include "coordinator/metadata/table_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "base/sometimes.h"

namespace ramcloud {
namespace {

const TabletRecord* tablet_at(const TableRecord& table, uint64_t start_hash) {
  const auto found =
      std::ranges::lower_bound(table.tablets, start_hash, {}, &TabletRecord::start_hash);
  return found != table.tablets.end() && found->start_hash == start_hash ? &*found : nullptr;
}

bool same_tablets(const TableRecord& a, const TableRecord& b) {
  return std::ranges::equal(a.tablets, b.tablets,
                            [](const auto& x, const auto& y) { return !differs(x, y); });
}

/// The table as stored at table_key().
TableRecord without_chunks(TableRecord table) {
  if (table.layout != 0 || !table.placed()) table.tablets.clear();
  return table;
}

/// The tablets of a table that are in one of its chunks: from `start` up to the next one.
auto tablets_of_chunk(TableRecord& table, uint64_t start) {
  const auto next = table.chunks.upper_bound(start);
  const auto first = std::ranges::lower_bound(table.tablets, start, {}, &TabletRecord::start_hash);
  const auto last =
      next == table.chunks.end()
          ? table.tablets.end()
          : std::ranges::lower_bound(table.tablets, next->first, {}, &TabletRecord::start_hash);
  return std::ranges::subrange(first, last);
}

bool same_chunks(const TableRecord& a, const TableRecord& b) {
  return std::ranges::equal(a.chunks | std::views::keys, b.chunks | std::views::keys);
}

/// True if the table needs a new layout.
bool needs_layout(const TableRecord* before, const TableRecord& table) {
  if (!table.placed()) return false;
  if (before == nullptr) return true;
  if (before->layout == 0) return !before->placed() || !same_tablets(*before, table);
  return table.chunks.empty();
}

void lay_out(TableRecord& table) {
  uint64_t last = table.layout;
  for (const TabletChunkName& stray : table.strays) last = std::max(last, stray.layout);
  table.layout = last + 1;
  table.chunks.clear();
  for (size_t i = 0; i < table.tablets.size(); i += kTabletsInAChunk) {
    table.chunks[table.tablets[i].start_hash] = "";
  }
}

}  // namespace

void halve_full_chunk(TableRecord& table, uint64_t hash) {
  const auto next = table.chunks.upper_bound(hash);
  if (next == table.chunks.begin()) return;  // it has no chunks yet
  const auto tablets = tablets_of_chunk(table, std::prev(next)->first);
  if (tablets.size() <= kMostTabletsInAChunk) return;
  table.chunks[tablets[tablets.size() / 2].start_hash] = "";
}

bool differs(const TabletRecord& a, const TabletRecord& b) {
  const auto all = [](const TabletRecord& t) {
    return std::tie(t.start_hash, t.end_hash, t.server_id, t.status, t.creation_position,
                    t.attempt);
  };
  return all(a) != all(b);
}

std::vector<TabletRecord> tablets_of_span(uint32_t span) {
  std::vector<TabletRecord> tablets(span);
  for (uint32_t i = 0; i < span; ++i) {
    tablets[i].start_hash = tablet_start(i, span);
    tablets[i].end_hash = tablet_end(i, span);
  }
  return tablets;
}

// ---- writing ------------------------------------------------------------------------------------

/// A table that is being written.
struct TableWriter::Writing {
  const TableRecord* before = nullptr;  // the recorded table; not moved while the lock is held
  TableRecord table;

  bool changed(uint64_t start) {
    if (before == nullptr || before->layout != table.layout || !before->chunks.contains(start)) {
      return true;
    }
    const auto tablets = tablets_of_chunk(table, start);
    const auto next = table.chunks.upper_bound(start);
    const auto next_before = before->chunks.upper_bound(start);
    const auto end = [](auto at, const auto& chunks) {
      return at == chunks.end() ? ~uint64_t{0} : at->first;
    };
    if (end(next, table.chunks) != end(next_before, before->chunks)) return true;
    return std::ranges::any_of(tablets, [this](const TabletRecord& t) { return is_new(t); });
  }
  bool is_new(const TabletRecord& tablet) const {
    const TabletRecord* old = before == nullptr ? nullptr : tablet_at(*before, tablet.start_hash);
    return old == nullptr || differs(*old, tablet);
  }
  bool header_changed() const {
    const auto all = [](const TableRecord& t) {
      return std::tie(t.id, t.name, t.state, t.revision, t.span, t.layout, t.unknown);
    };
    return before == nullptr || all(*before) != all(table) || table.layout == 0;
  }
  void raise(TabletRecord& tablet, uint64_t revision) const {
    if (is_new(tablet)) tablet.revision = revision;
  }
};

std::vector<TableWriter::Operation> TableWriter::operations_for(Writing& writing) const {
  TableRecord& table = writing.table;
  const auto recorded = state_.tables.find(table.id);
  writing.before = recorded == state_.tables.end() ? nullptr : &recorded->second;
  const bool in_chunks = state_.format >= kTabletsInChunks;
  if (in_chunks && needs_layout(writing.before, table)) lay_out(table);
  if (in_chunks && writing.before != nullptr && writing.before->layout == table.layout &&
      !same_chunks(*writing.before, table)) {
    // The chunks on both sides of a new boundary must change in one transaction.
    const auto changed = static_cast<size_t>(std::ranges::count_if(
        table.chunks, [&](const auto& entry) { return writing.changed(entry.first); }));
    if (changed + 1 > operations_at_once_) lay_out(table);
  }
  std::vector<Operation> operations;
  for (const auto& entry : table.chunks) {
    const uint64_t start = entry.first;
    if (!writing.changed(start)) continue;
    operations.emplace_back([&writing, start](MetadataChange& change, uint64_t revision) {
      TableRecord& t = writing.table;
      TabletChunkRecord chunk{t.id, t.layout, {}, t.chunks.at(start)};
      for (TabletRecord& tablet : tablets_of_chunk(t, start)) {
        writing.raise(tablet, revision);
        chunk.tablets.push_back(tablet);
      }
      change.put(tablet_chunk_key(t.id, t.layout, start), chunk);
    });
  }
  if (writing.header_changed()) {
    operations.emplace_back([&writing](MetadataChange& change, uint64_t revision) {
      TableRecord& t = writing.table;
      t.revision = revision;
      if (t.layout == 0) {
        for (TabletRecord& tablet : t.tablets) writing.raise(tablet, revision);
      }
      change.put(table_key(t.id), without_chunks(t));
    });
  }
  const auto remove = [&](const TabletChunkName& name) {
    operations.emplace_back([key = tablet_chunk_key(table.id, name.layout, name.start_hash)](
                                MetadataChange& change, uint64_t) { change.remove(key); });
  };
  if (writing.before == nullptr) return operations;
  for (const TabletChunkName& stray : writing.before->strays) remove(stray);
  for (const auto& [start, unknown] : writing.before->chunks) {
    if (writing.before->layout != table.layout || !table.chunks.contains(start)) {
      remove({writing.before->layout, start});
    }
  }
  return operations;
}

/// Records a new table before its chunks, which cannot be read without it. If the leader dies in
/// between, the next one finds a table that is being created.
TableWriter::Operation TableWriter::announce(const Writing& writing) {
  return [&writing](MetadataChange& change, uint64_t revision) {
    TableRecord record = writing.table;
    record.state = TableState::kCreating;
    record.revision = revision;
    record.layout = 0;
    record.tablets.clear();
    change.put(table_key(record.id), record);
  };
}

void TableWriter::apply(Writing& writing) {
  writing.table.strays.clear();
  const uint64_t id = writing.table.id;
  state_.tables[id] = std::move(writing.table);
}

size_t TableWriter::operations(const TableRecord& table) const {
  Writing writing{nullptr, table};
  return operations_for(writing).size();
}

Task<Status> TableWriter::write(const AsyncMutex::Lock& lock, TableRecord table,
                                MetadataChange with, Ledger::Objection objection) {
  Writing writing{nullptr, std::move(table)};
  std::vector<Operation> operations = operations_for(writing);
  if (operations.empty() && with.size() == 0) co_return StatusCode::kOk;
  const bool one = operations.size() + with.size() <= operations_at_once_;
  if (!one) RC_SOMETIMES("coordinator.writes_a_table_in_steps");
  if (!one && writing.before == nullptr) operations.insert(operations.begin(), announce(writing));
  size_t done = 0;
  do {
    MetadataChange change = std::exchange(with, {});
    const uint64_t revision = ledger_.next_revision();
    while (done < operations.size() && change.size() < operations_at_once_) {
      operations[done++](change, revision);
    }
    Status written = co_await ledger_.commit(lock, std::move(change), one ? objection : nullptr);
    if (!written.ok()) co_return written;
  } while (done < operations.size());
  apply(writing);
  co_return StatusCode::kOk;
}

Task<Status> TableWriter::write_all(const AsyncMutex::Lock& lock, std::vector<TableRecord> tables) {
  std::vector<TableRecord> together;
  size_t sum = 0;
  for (TableRecord& table : tables) {
    const size_t more = operations(table);
    if (sum + more > operations_at_once_ && !together.empty()) {
      sum = 0;
      Status written = co_await write_at_once(lock, std::exchange(together, {}));
      if (!written.ok()) co_return written;
    }
    if (more > operations_at_once_) {
      Status written = co_await write(lock, std::move(table));
      if (!written.ok()) co_return written;
      continue;
    }
    sum += more;
    together.push_back(std::move(table));
  }
  if (together.empty()) co_return StatusCode::kOk;
  co_return co_await write_at_once(lock, std::move(together));
}

Task<Status> TableWriter::write_at_once(const AsyncMutex::Lock& lock,
                                        std::vector<TableRecord> tables) {
  std::vector<Writing> writings;
  for (TableRecord& table : tables) writings.push_back({nullptr, std::move(table)});
  MetadataChange change;
  const uint64_t revision = ledger_.next_revision();
  for (Writing& writing : writings) {
    for (const Operation& operation : operations_for(writing)) operation(change, revision);
  }
  if (change.size() == 0) co_return StatusCode::kOk;
  if (change.size() > operations_at_once_) {
    co_return Status(StatusCode::kInvalidArgument,
                     fmt::format("{} records in one transaction; accepted are at most {}",
                                 change.size(), operations_at_once_));
  }
  Status written = co_await ledger_.commit(lock, std::move(change));
  if (!written.ok()) co_return written;
  for (Writing& writing : writings) apply(writing);
  co_return StatusCode::kOk;
}

Task<Status> TableWriter::remove(const AsyncMutex::Lock& lock, uint64_t table_id) {
  std::vector<std::string> keys;
  const TableRecord& table = state_.tables.at(table_id);
  for (const TabletChunkName& stray : table.strays) {
    keys.push_back(tablet_chunk_key(table_id, stray.layout, stray.start_hash));
  }
  for (const auto& [start, unknown] : table.chunks) {
    keys.push_back(tablet_chunk_key(table_id, table.layout, start));
  }
  keys.push_back(table_key(table_id));
  for (size_t at = 0; at < keys.size();) {
    MetadataChange change;
    while (at < keys.size() && change.size() < operations_at_once_) change.remove(keys[at++]);
    Status written = co_await ledger_.commit(lock, std::move(change));
    if (!written.ok()) co_return written;
  }
  state_.tables.erase(table_id);
  co_return StatusCode::kOk;
}

// ---- reading ------------------------------------------------------------------------------------

namespace {

Status damaged(const std::string& key, std::string_view what) {
  return {StatusCode::kCorrupt, fmt::format("metadata record '{}' {}", key, what)};
}

Status undecodable(const std::string& key, const std::string& bytes) {
  return damaged(key, fmt::format("({} bytes) does not decode", bytes.size()));
}

}  // namespace

Status read_table_record(const std::string& key, const std::string& bytes, ClusterState& state) {
  TableRecord table;
  if (!decode_record(bytes, table)) return undecodable(key, bytes);
  state.tables[table.id] = std::move(table);
  return {};
}

Status read_tablet_chunk(const std::string& key, const std::string& bytes, ClusterState& state) {
  TabletChunkRecord chunk;
  if (!decode_record(bytes, chunk)) return undecodable(key, bytes);
  if (chunk.tablets.empty()) return damaged(key, "has no tablets");
  const TabletChunkName name{chunk.layout, chunk.tablets.front().start_hash};
  if (key != tablet_chunk_key(chunk.table_id, name.layout, name.start_hash)) {
    return damaged(key, fmt::format("is that of '{}'", tablet_chunk_key(chunk.table_id, name.layout,
                                                                        name.start_hash)));
  }
  const auto table = state.tables.find(chunk.table_id);
  if (table == state.tables.end()) {
    return damaged(key, fmt::format("is of table {}, which has no record", chunk.table_id));
  }
  TableRecord& of = table->second;
  if (chunk.layout == 0 || chunk.layout != of.layout) {
    RC_SOMETIMES("coordinator.finds_stray_chunks");
    of.strays.push_back(name);
    return {};
  }
  of.chunks[name.start_hash] = std::move(chunk.unknown);
  std::ranges::move(chunk.tablets, std::back_inserter(of.tablets));
  return {};
}

Status complete_tables(ClusterState& state) {
  for (auto& [id, table] : state.tables) {
    if (table.span == 0) table.span = static_cast<uint32_t>(table.tablets.size());
    if (table.layout == 0 && table.tablets.empty()) {
      if (table.span > kMaxTablets) return damaged(table_key(id), "has too large a span");
      table.tablets = tablets_of_span(table.span);
    }
    for (TabletRecord& tablet : table.tablets) {
      if (tablet.revision == 0) tablet.revision = table.revision;
    }
  }
  return {};
}

}  // namespace ramcloud
