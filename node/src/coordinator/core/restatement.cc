#include "coordinator/core/restatement.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/sometimes.h"
#include "coordinator/core/checks.h"
#include "coordinator/core/membership.h"
#include "coordinator/metadata/metadata_export.h"

namespace ramcloud {
namespace {

/// A claim that a server owns a range.
struct Claim {
  uint64_t start_hash = 0, end_hash = 0, server_id = 0;
  uint64_t revision = 0;
  uint64_t position = 0;                   // creation position, if it is known
  const TabletRecord* recorded = nullptr;  // the same claim in the metadata
  bool doubtful = false;                   // its server is dead, and its tablets may have been
                                           // recovered by another since the export

  /// Of two claims to a hash the higher rank wins: the later one, otherwise the one in the
  /// metadata.
  auto rank() const { return std::tuple(revision, recorded != nullptr, ~server_id); }
  /// The tablet's record with this claim's owner.
  TabletRecord tablet() const {
    TabletRecord tablet;
    if (recorded != nullptr) tablet = *recorded;
    tablet.server_id = server_id;
    tablet.revision = revision;
    if (position != 0) tablet.creation_position = position;
    if (doubtful) tablet.creation_position = kNobodysPosition;
    return tablet;
  }
};

/// All statements about one table.
struct Said {
  const TableRecord* record = nullptr;
  uint64_t revision = 0;     // the highest of live servers' statements
  uint64_t dropped = 0;      // the highest revision that says it was dropped
  uint64_t not_dropped = 0;  // the highest revision that does not
  std::string name;
  std::vector<Claim> claims;  // of live servers

  /// Servers have followed later orders than those in the metadata.
  bool outdated() const { return record != nullptr && revision > record->latest_revision(); }
};

/// True if the list of a server that answered shows that the server was given up, or does not have
/// it any more: then others may have recovered its tablets. Lists of this leader do not count (a
/// late answer may have one), because no tablet was handed over since the import.
bool given_up(const ClusterState& state, const Restatements& said, uint64_t server_id) {
  return std::ranges::any_of(said, [&state, server_id](const auto& entry) {
    const wire::ServerList& list = entry.second.list;
    const bool own = list.term == state.term && list.version >= state.first_list_version;
    return list.version > 0 && !own && std::ranges::none_of(list.servers, [&](const auto& listed) {
             return listed.server_id == server_id && listed.state == wire::ServerState::kUp;
           });
  });
}

std::map<uint64_t, Said> collect(const ClusterState& state, const Restatements& said) {
  std::map<uint64_t, Said> all;
  for (const auto& [id, table] : state.tables) all[id].record = &table;
  for (const auto& [server_id, statement] : said) {
    if (!speaks(state, said, server_id)) continue;
    for (const auto& table : statement.tables) {
      Said& of = all[table.table_id];
      of.revision = std::max(of.revision, table.revision);
      uint64_t& latest = table.dropped ? of.dropped : of.not_dropped;
      latest = std::max(latest, table.revision);
      if (of.name.empty()) of.name = table.name;
      for (const auto& tablet : table.tablets) {
        of.claims.push_back({tablet.start_hash, tablet.end_hash, server_id, table.revision,
                             tablet.creation_position});
      }
    }
  }
  return all;
}

bool was_dropped(const Said& of) {
  const uint64_t alive =
      std::max(of.not_dropped, of.record == nullptr ? 0 : of.record->latest_revision());
  return of.dropped > alive;
}

/// A crashed or silent server that may own the hashes that no server claims.
std::optional<uint64_t> absentee(const ClusterState& state, const Restatements& said) {
  std::optional<uint64_t> crashed, silent;
  for (const auto& [id, server] : state.servers) {
    if (server.record.state == wire::ServerState::kRemoved || speaks(state, said, id)) continue;
    (server.up() ? silent : crashed) = id;
  }
  return crashed ? crashed : silent;
}

/// A silent server that may have recovered tablets of a dead server since the export.
std::optional<uint64_t> silent_heir(const ClusterState& state, const Restatements& said,
                                    const ServerIds& outlived, uint64_t dead_id) {
  if (!given_up(state, said, dead_id)) return std::nullopt;
  for (const auto& [id, server] : state.servers) {
    if (id == dead_id || !outlived.contains(id) || speaks(state, said, id)) continue;
    if (server.record.state != wire::ServerState::kRemoved) return id;
  }
  return std::nullopt;
}

/// Computes a table's tablets from the best claim for each hash.
class Layout {
 public:
  Layout(const ClusterState& state, const Restatements& said, const ServerIds& outlived,
         const Said& of)
      : claims_(of.claims), record_(of.record), outdated_(of.outdated()) {
    if (of.record == nullptr) return;
    for (const auto& tablet : of.record->tablets) {
      for (Claim& claim : claims_) {
        if (claim.server_id != tablet.server_id || claim.start_hash != tablet.start_hash) continue;
        claim.recorded = &tablet;
      }
      if (tablet.server_id == 0) continue;  // not placed
      Claim claim{tablet.start_hash,
                  tablet.end_hash,
                  tablet.server_id,
                  std::max(of.record->revision, tablet.revision),
                  0,
                  &tablet};
      // A server that restated itself reports what it owns.
      if (speaks(state, said, tablet.server_id)) {
        fallback_.push_back(claim);
        continue;
      }
      claim.doubtful = silent_heir(state, said, outlived, tablet.server_id).has_value();
      claims_.push_back(claim);
    }
  }

  std::vector<TabletRecord> tablets(std::optional<uint64_t> for_holes) {
    std::set<uint64_t> starts{0};
    for (const auto* list : {&claims_, &fallback_}) {
      for (const Claim& claim : *list) {
        starts.insert(claim.start_hash);
        if (claim.end_hash != ~uint64_t{0}) starts.insert(claim.end_hash + 1);
      }
    }
    std::vector<TabletRecord> result;
    const Claim* last = nullptr;
    for (auto start = starts.begin(); start != starts.end(); ++start) {
      const auto next = std::next(start);
      const uint64_t end = next == starts.end() ? ~uint64_t{0} : *next - 1;
      const Claim* best = best_of(claims_, *start);
      // If no server claims this hash: when servers followed later orders for the table than the
      // metadata has, the recorded owner no longer has it, so leave a hole. Otherwise the order may
      // not have reached that owner yet, so take the claim of the metadata.
      const bool denied = best == nullptr && outdated_ && for_holes;
      if (best == nullptr && !denied) best = best_of(fallback_, *start);
      if (best == nullptr) has_holes_ = true;
      if (best != nullptr && best->doubtful) doubtful_.insert(best->server_id);
      if (best != nullptr && best == last) {
        result.back().end_hash = end;
      } else {
        TabletRecord& tablet = result.emplace_back();
        if (best != nullptr) tablet = best->tablet();
        tablet.start_hash = *start;
        tablet.end_hash = end;
        if (best == nullptr) tablet.server_id = for_holes.value_or(0);
        if (best == nullptr && for_holes) tablet.creation_position = kNobodysPosition;
        tablet.attempt = std::max(tablet.attempt, recorded_attempt(*start));
      }
      last = best;
    }
    return result;
  }
  bool has_holes() const { return has_holes_; }
  /// Dead servers with tablets in the metadata whose tablets may have been recovered by others.
  const std::set<uint64_t>& doubtful() const { return doubtful_; }

 private:
  static const Claim* best_of(const std::vector<Claim>& claims, uint64_t hash) {
    const Claim* best = nullptr;
    for (const Claim& claim : claims) {
      if (hash < claim.start_hash || hash > claim.end_hash) continue;
      if (best == nullptr || claim.rank() > best->rank()) best = &claim;
    }
    return best;
  }
  /// The recorded attempt of a tablet never falls, whoever owns it.
  uint64_t recorded_attempt(uint64_t hash) const {
    if (record_ == nullptr) return 0;
    for (const TabletRecord& tablet : record_->tablets) {
      if (hash >= tablet.start_hash && hash <= tablet.end_hash) return tablet.attempt;
    }
    return 0;
  }
  std::vector<Claim> claims_;
  std::vector<Claim> fallback_;  // in the metadata, but not claimed by its server
  const TableRecord* record_;
  bool outdated_;
  bool has_holes_ = false;
  std::set<uint64_t> doubtful_;
};

/// Returns a name that no other table has.
std::string free_name(const ClusterState& state, const Owned& result, const Said& of,
                      uint64_t table_id) {
  const auto taken = [&](const std::string& name) {
    const auto is = [&](const TableRecord& table) {
      return table.state != TableState::kDropping && table.name == name && table.id != table_id;
    };
    // For a changed table, its new tablets count.
    if (std::ranges::any_of(result.tables, is)) return true;
    return std::ranges::any_of(state.tables, [&](const auto& entry) {
      const bool changed = std::ranges::any_of(
          result.tables, [&](const TableRecord& table) { return table.id == entry.first; });
      return !changed && is(entry.second);
    });
  };
  std::string name = of.name;
  if (!check_printable("name", name, 1, wire::kMaxTableNameBytes).ok()) name = "table";
  if (name == of.name && !taken(name)) return name;
  const std::string mark = fmt::format("-restored-{}", table_id);
  return name.substr(0, wire::kMaxTableNameBytes - mark.size()) + mark;
}

bool same(const std::vector<TabletRecord>& a, const std::vector<TabletRecord>& b) {
  return std::ranges::equal(a, b, [](const TabletRecord& x, const TabletRecord& y) {
    return std::tie(x.start_hash, x.end_hash, x.server_id, x.creation_position) ==
           std::tie(y.start_hash, y.end_hash, y.server_id, y.creation_position);
  });
}

/// Adds servers that own a part of the table but must not.
void add_orphans(const Said& of, uint64_t table_id, const TableRecord* table, Owned& result) {
  for (const Claim& claim : of.claims) {
    if (table == nullptr || !table->has_tablet_on(claim.server_id)) {
      result.orphans.insert({claim.server_id, table_id});
    }
  }
}

class Decision {
 public:
  Decision(const ClusterState& state, const Restatements& said, const ServerIds& outlived)
      : state_(state), said_(said), outlived_(outlived), absentee_(absentee(state, said)) {}

  /// Handles tables to be removed first, so that their names are free.
  Owned all() {
    const auto tables = collect(state_, said_);
    for (const auto& [id, of] : tables) drop(id, of);
    for (const auto& [id, of] : tables) place(id, of);
    return std::move(result_);
  }

 private:
  void note(std::string text) { result_.notes.push_back(std::move(text)); }

  void drop(uint64_t id, const Said& of) {
    const bool dropping = of.record != nullptr && of.record->state == TableState::kDropping;
    if (!dropping && !was_dropped(of)) return;
    add_orphans(of, id, of.record, result_);
    if (of.record == nullptr || (dropping && !of.outdated())) return;
    TableRecord& record = result_.tables.emplace_back(*of.record);
    record.state = TableState::kDropping;
    if (dropping) return;
    note(fmt::format("table {} ({}) was dropped since the export", id, quoted(record.name)));
  }

  void place(uint64_t id, const Said& of) {
    if (was_dropped(of)) return;
    if (of.record != nullptr && of.record->state == TableState::kDropping) return;
    if (of.record == nullptr && of.claims.empty()) return;
    Layout layout(state_, said_, outlived_, of);
    TableRecord record;
    if (of.record != nullptr) record = *of.record;
    record.id = id;
    record.tablets = layout.tablets(absentee_);
    if (record.span == 0) record.span = static_cast<uint32_t>(record.tablets.size());
    record.state = state_of(of, record, layout);
    if (of.record != nullptr && !of.outdated() && record.state == of.record->state &&
        same(record.tablets, of.record->tablets)) {
      return add_orphans(of, id, of.record, result_);
    }
    if (of.record == nullptr) {
      record.name = free_name(state_, result_, of, id);
      note(fmt::format("table {} was created since the export; it is called {}", id,
                       quoted(record.name)));
    } else {
      note(fmt::format("table {} ({}) has changed since the export", id, quoted(record.name)));
    }
    if (layout.has_holes() && record.state == TableState::kNormal) {
      note(fmt::format(
          "no server reports that it owns a part of table {}: the part is recorded for server {}",
          id, *absentee_));
    }
    for (const uint64_t dead : layout.doubtful()) {
      RC_SOMETIMES("coordinator.imported_metadata_names_an_owner_with_a_silent_heir");
      note(fmt::format(
          "table {} was owned by server {} at the export; that server died, and so did server {}, "
          "which may have recovered it since: it is not known whose log is newer",
          id, dead, *silent_heir(state_, said_, outlived_, dead)));
    }
    add_orphans(of, id, &record, result_);
    result_.tables.push_back(std::move(record));
  }

  /// A table that is being created may be placed again where no server owns it. So it stays
  /// CREATING only if every one of its servers says that it does not own it.
  TableState state_of(const Said& of, TableRecord& record, const Layout& layout) {
    const bool placed = of.record != nullptr && of.record->placed();
    if (!placed && layout.has_holes() && !absentee_) {
      // No server is missing: some had not got their order yet.
      if (of.claims.empty()) record.tablets = of.record->tablets;
      for (TabletRecord& tablet : record.tablets) {
        if (tablet.server_id == 0 && !of.claims.empty()) {
          tablet.server_id = of.claims.front().server_id;
        }
      }
      return TableState::kCreating;
    }
    if (of.record == nullptr || of.record->state == TableState::kNormal) return TableState::kNormal;
    bool all_owned = true;
    for (const TabletRecord& tablet : record.tablets) {
      if (!speaks(state_, said_, tablet.server_id)) return TableState::kNormal;
      all_owned = all_owned && std::ranges::any_of(of.claims, [&](const Claim& claim) {
                    return claim.server_id == tablet.server_id &&
                           claim.start_hash <= tablet.start_hash &&
                           claim.end_hash >= tablet.end_hash;
                  });
    }
    return all_owned ? TableState::kNormal : TableState::kCreating;
  }

  const ClusterState& state_;
  const Restatements& said_;
  const ServerIds& outlived_;
  std::optional<uint64_t> absentee_;
  Owned result_;
};

}  // namespace

Status check(const wire::Restatement& said) {
  constexpr uint64_t kMost = wire::kMaxTerm / 2;
  const auto impossible = [&](const char* what, uint64_t number) {
    return not_accepted(what, fmt::format("{}", number), fmt::format("at most {}", kMost));
  };
  if (said.list.version > kMost) return impossible("list version", said.list.version);
  for (const auto& entry : said.list.servers) {
    if (entry.server_id == 0 || entry.server_id > kMost) {
      return impossible("server id", entry.server_id);
    }
  }
  for (const auto& table : said.tables) {
    if (table.table_id == 0 || table.table_id > kMost) return impossible("table", table.table_id);
    if (table.revision > kMost) return impossible("revision", table.revision);
    for (const auto& tablet : table.tablets) {
      if (tablet.end_hash < tablet.start_hash) return impossible("hash", tablet.start_hash);
    }
  }
  return {};
}

ListedSince listed_since(const ClusterState& state, const wire::ServerList& list) {
  ListedSince since;
  std::set<uint64_t> listed;
  for (const auto& entry : list.servers) {
    listed.insert(entry.server_id);
    const auto known = state.servers.find(entry.server_id);
    if (known == state.servers.end() && entry.state == wire::ServerState::kUp) {
      since.unknown.push_back(entry);
    } else if (known == state.servers.end() ||
               (known->second.up() && entry.state != wire::ServerState::kUp)) {
      ServerRecord& crashed = since.crashed.emplace_back(
          known == state.servers.end() ? record_of(entry) : known->second.record);
      crashed.state = wire::ServerState::kCrashed;
      crashed.state_reason = fmt::format("{}live servers list it as crashed", kFoundAtImport);
    }
  }
  // If the list was made between the export and the import, a server that it does not name was
  // removed for ever.
  const bool newer = state.restate && list.version > state.restate->revision &&
                     list.version - state.restate->revision < kImportGap;
  if (!newer) return since;
  for (const auto& [id, server] : state.servers) {
    if (!server.up() || id > state.restate->last_server_id || listed.contains(id)) continue;
    ServerRecord& crashed = since.crashed.emplace_back(server.record);
    crashed.state = wire::ServerState::kCrashed;
    crashed.state_reason = fmt::format("{}live servers do not list it any more", kFoundAtImport);
  }
  return since;
}

ServerRecord record_of(const wire::ServerListEntry& listed) {
  ServerRecord record;
  record.id = listed.server_id;
  record.name = listed.name;
  record.locator = listed.locator;
  record.failure_domain = listed.failure_domain;
  record.disk_read_bytes_per_second = listed.disk_read_bytes_per_second;
  return record;
}

ServerRecord record_of(const wire::Restatement& said) {
  ServerRecord record = record_of(said.enlisted);
  record.id = said.server_id;
  record.accounted = true;
  return record;
}

bool speaks(const ClusterState& state, const Restatements& said, uint64_t server_id) {
  const auto server = state.servers.find(server_id);
  const auto own = said.find(server_id);
  if (server == state.servers.end() || own == said.end()) return false;
  if (server->second.up()) return true;
  return own->second.server_id == server_id &&
         server->second.record.state == wire::ServerState::kCrashed &&
         !given_up(state, said, server_id);
}

Owned owned_by(const ClusterState& state, const Restatements& said, const ServerIds& outlived) {
  return Decision(state, said, outlived).all();
}

Heard heard_by(const Restatements& said) {
  Heard heard;
  for (const auto& [id, statement] : said) {
    heard.server_id = std::max(heard.server_id, id);
    heard.revision = std::max(heard.revision, statement.list.version);
    for (const auto& entry : statement.list.servers) {
      heard.server_id = std::max(heard.server_id, entry.server_id);
    }
    for (const auto& table : statement.tables) {
      heard.table_id = std::max(heard.table_id, table.table_id);
      heard.revision = std::max(heard.revision, table.revision);
    }
  }
  return heard;
}

}  // namespace ramcloud
