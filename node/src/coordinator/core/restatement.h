// Conclusions from the answers of live servers after an import of older metadata: which servers
// there are, and who owns which tablets. Only arithmetic; restating.h asks them, and writes it
// down. docs/design/coordinator.md, "Imports".
#pragma once

#include <compare>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/metadata/cluster_state.h"

namespace ramcloud {

/// By server. One that is UP and knows no such message has an empty one.
using Restatements = std::map<uint64_t, wire::Restatement>;

/// INVALID_ARGUMENT: its numbers are none that a coordinator could have given.
Status check(const wire::Restatement& said);

/// What a server list says that the metadata does not know. Verdicts are final: a server that is
/// CRASHED in it is CRASHED, and so is one that was in the export and has left the list since.
struct ListedSince {
  std::vector<ServerRecord> crashed;           // known ones and new ones
  std::vector<wire::ServerListEntry> unknown;  // UP there: to be asked
};
ListedSince listed_since(const ClusterState& state, const wire::ServerList& list);

/// The record of a server that the metadata does not know, as it restates itself.
ServerRecord record_of(const wire::Restatement& said);
/// The record of a server that the metadata does not know and that does not answer.
ServerRecord record_of(const wire::ServerListEntry& listed);

using ServerIds = std::set<uint64_t>;

struct Owned {
  /// That are new or different, or of which servers follow later orders: each is to be given a
  /// revision, so that the next orders are the latest.
  std::vector<TableRecord> tables;
  struct Orphan {
    uint64_t server_id = 0;
    uint64_t table_id = 0;
    auto operator<=>(const Orphan&) const = default;
  };
  std::set<Orphan> orphans;        // servers that must drop their part of a table
  std::vector<std::string> notes;  // what people should know
};

/// Whose each tablet is. A server that is UP and restated knows best what it owns, and of several
/// statements about a table the one with the highest revision holds. What a server owns that has
/// said nothing is as the metadata has it. But if that one was given up, and another server died
/// since the export, its tablets may have been the other one's: then no log is taken for theirs
/// (kNobodysPosition). `outlived`: servers that were UP at some time since the export. Ranges that
/// no server claims are recorded as a crashed server's, so that they are not taken for empty.
Owned owned_by(const ClusterState& state, const Restatements& said, const ServerIds& outlived);

/// The highest revision, and the highest ids, that servers have heard of.
struct Heard {
  uint64_t revision = 0, server_id = 0, table_id = 0;
};
Heard heard_by(const Restatements& said);

}  // namespace ramcloud
