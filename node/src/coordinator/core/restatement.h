// Conclusions from the answers of live servers after an import of older metadata: which servers
// there are, and who owns which tablets. Pure functions; import_reconciliation.h asks the servers
// and writes the result. docs/design/coordinator.md#imports.
#pragma once

#include <compare>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/metadata/cluster_state.h"

namespace ramcloud {

/// By server. A server that is UP but does not support the message has an empty one.
using Restatements = std::map<uint64_t, wire::Restatement>;

/// INVALID_ARGUMENT: it has numbers that no coordinator could have assigned.
Status check(const wire::Restatement& said);

/// Facts in a server list that the metadata does not have. Verdicts are final: a server that is
/// CRASHED in the list is CRASHED, and so is a server of the export that has left the list since.
struct ListedSince {
  std::vector<ServerRecord> crashed;           // known ones and new ones
  std::vector<wire::ServerListEntry> unknown;  // UP in the list: must be asked
};
ListedSince listed_since(const ClusterState& state, const wire::ServerList& list);

/// The record of an unknown server, from its restatement.
ServerRecord record_of(const wire::Restatement& said);
/// The record of an unknown server that does not answer, from a list.
ServerRecord record_of(const wire::ServerListEntry& listed);

/// Whether the server's statement, if there is one, holds: the server is UP, or has died since it
/// answered (no order has gone out since). Not if others list it as given up before the import:
/// they may have recovered what it says it owns.
bool speaks(const ClusterState& state, const Restatements& said, uint64_t server_id);

using ServerIds = std::set<uint64_t>;

struct Owned {
  /// Tables that are new or different, or for which servers have followed later orders. Each gets a
  /// new revision, so that the next orders are the latest.
  std::vector<TableRecord> tables;
  struct Orphan {
    uint64_t server_id = 0;
    uint64_t table_id = 0;
    auto operator<=>(const Orphan&) const = default;
  };
  std::set<Orphan> orphans;        // servers that must drop their part of a table
  std::vector<std::string> notes;  // notes for people
};

/// The owner of each tablet. The statement of a server that speaks is preferred; of several
/// statements about a table the one with the highest revision wins. For a server that restated
/// nothing, the metadata is used. But if that server was given up, and another server died since
/// the export, the dead one may have recovered its tablets: then no log is used for them
/// (kNobodysPosition). `outlived`: servers that were UP at some time since the export. Ranges that
/// no server claims are recorded as a crashed server's, so that they do not count as empty.
Owned owned_by(const ClusterState& state, const Restatements& said, const ServerIds& outlived);

/// The highest revision and ids that any server reported.
struct Heard {
  uint64_t revision = 0, server_id = 0, table_id = 0;
};
Heard heard_by(const Restatements& said);

}  // namespace ramcloud
