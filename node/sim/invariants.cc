#include "sim/invariants.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ramcloud::sim {
namespace {

/// Names a replica in texts.
struct Name {
  uint64_t master_id, segment_id, backup_id;
};

}  // namespace
}  // namespace ramcloud::sim

// Formatted lazily, so that texts are built only for broken invariants.
template <>
struct fmt::formatter<ramcloud::log::LogPosition> : fmt::formatter<std::string_view> {
  auto format(ramcloud::log::LogPosition position, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{}/{}", position.segment_id(), position.offset());
  }
};
template <>
struct fmt::formatter<ramcloud::sim::Name> : fmt::formatter<std::string_view> {
  auto format(const ramcloud::sim::Name& name, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "server {}: its replica of segment {} on server {}",
                          name.master_id, name.segment_id, name.backup_id);
  }
};

namespace ramcloud::sim {
namespace {

bool overlap(const ClusterView::Tablet& a, const ClusterView::Tablet& b) {
  return a.table_id == b.table_id && a.start_hash <= b.end_hash && b.start_hash <= a.end_hash;
}

bool is_up(const ClusterView& view, uint64_t server_id) {
  const auto found = view.leader->servers.find(server_id);
  return found != view.leader->servers.end() && found->second.up();
}

/// The durable bytes at the start of a segment.
uint32_t durable_bytes(const ClusterView::Segment& segment, log::LogPosition durable) {
  if (segment.id < durable.segment_id()) return segment.published;
  return segment.id == durable.segment_id() ? durable.offset() : 0;
}

}  // namespace

// ---- after every turn ---------------------------------------------------------------------------

std::string Invariants::after_turn(const ServerNumbers& n) {
  broken_.clear();
  List& list = lists_[n.life];
  require(std::tie(n.list_term, n.list_version) >= std::tie(list.term, list.version),
          "server {}: its server list fell from {}.{} to {}.{}", n.server_id, list.term,
          list.version, n.list_term, n.list_version);
  list = {n.list_term, n.list_version};
  if (n.server_id == 0) return std::move(broken_);

  const auto [at, added] = servers_.try_emplace(n.server_id, Seen{n.life, {}, {}, 0});
  Seen& seen = at->second;
  require(seen.life == n.life, "server id {} was given to another process", n.server_id);
  require(n.durable >= seen.durable, "server {}: what is durable went back from {} to {}",
          n.server_id, seen.durable, n.durable);
  require(n.appended >= seen.appended, "server {}: what is appended went back from {} to {}",
          n.server_id, seen.appended, n.appended);
  require(n.durable <= n.appended, "server {}: {} is durable, and only {} was appended",
          n.server_id, n.durable, n.appended);
  require(n.epoch >= seen.epoch, "server {}: its replication epoch fell from {} to {}", n.server_id,
          seen.epoch, n.epoch);
  seen = {n.life, n.durable, n.appended, n.epoch};

  const uint64_t known = n.frames_free + n.frames_quarantined + n.frames_held + n.frames_preparing;
  require(n.device_failed ? known <= n.frames : known == n.frames,
          "server {}: {} frames are {} free, {} in quarantine, {} of replicas and {} on their way",
          n.server_id, n.frames, n.frames_free, n.frames_quarantined, n.frames_held,
          n.frames_preparing);
  return std::move(broken_);
}

std::string Invariants::after_rise(const ServerNumbers& server, const Backing& backing) {
  broken_.clear();
  require(backing.lacking == 0,
          "server {}: {} is durable, and {} of {} replicas that it needs do not have all of it",
          server.server_id, server.durable, backing.lacking, backing.wanted);
  require(backing.holding >= backing.needed,
          "server {}: {} is durable on {} replicas; at least {} must have it", server.server_id,
          server.durable, backing.holding, backing.needed);
  return std::move(broken_);
}

std::string Invariants::after_change(const ClusterState& leader) {
  const Status status = coordinator_.check(leader);
  return status.ok() ? std::string() : "coordinator: " + status.to_string() + "\n";
}

// ---- all together -------------------------------------------------------------------------------

std::string Invariants::check(const ClusterView& view) {
  broken_.clear();
  std::string broken = view.leader == nullptr ? std::string() : after_change(*view.leader);
  for (const auto& server : view.servers) broken += after_turn(server.numbers);
  broken_.clear();
  check_owners(view);
  note_given_up(view);
  for (const auto& server : view.servers) {
    check_log(server);
    // Backups free the replicas of a recovered master, which may not know yet that it was given up.
    if (!given_up_.contains(server.numbers.server_id)) check_replicas(server);
    check_epochs(view, server);
    check_listed(server);
    check_accounting(server);
  }
  return broken + std::exchange(broken_, {});
}

void Invariants::note_given_up(const ClusterView& view) {
  if (view.leader == nullptr) return;
  for (const auto& [id, server] : view.leader->servers) {
    if (!server.up()) given_up_.insert(id);
  }
}

void Invariants::check_owners(const ClusterView& view) {
  if (view.leader == nullptr) return;
  for (const auto& server : view.servers) {
    if (is_up(view, server.numbers.server_id)) check_served(view, server);
  }
  for (const auto& [id, table] : view.leader->tables) {
    if (table.state != TableState::kNormal) continue;
    for (const TabletRecord& tablet : table.tablets) {
      const auto* server = view.find(tablet.server_id);
      if (server == nullptr || !is_up(view, tablet.server_id)) continue;
      // A recovered tablet may have its owner in the metadata before that one has its order to
      // serve.
      const bool served = std::ranges::any_of(server->tablets, [&](const auto& t) {
        return (t.served || tablet.attempt != 0) && t.table_id == id &&
               t.start_hash == tablet.start_hash && t.end_hash == tablet.end_hash;
      });
      require(served, "table {}: server {} must serve {:#x}..{:#x}, and does not", id,
              tablet.server_id, tablet.start_hash, tablet.end_hash);
    }
  }
}

/// Checks that each tablet that a server serves was given to it, and that no other server serves
/// it.
void Invariants::check_served(const ClusterView& view, const ClusterView::Server& server) {
  const uint64_t own = server.numbers.server_id;
  for (const auto& tablet : server.tablets) {
    if (!tablet.served) continue;
    const auto table = view.leader->tables.find(tablet.table_id);
    const bool given = table != view.leader->tables.end() &&
                       std::ranges::any_of(table->second.tablets, [&](const TabletRecord& t) {
                         return t.server_id == own && t.start_hash == tablet.start_hash &&
                                t.end_hash == tablet.end_hash;
                       });
    require(given, "table {}: server {} serves {:#x}..{:#x}, which the coordinator did not give it",
            tablet.table_id, own, tablet.start_hash, tablet.end_hash);
    for (const auto& other : view.servers) {
      const uint64_t id = other.numbers.server_id;
      if (id <= own || !is_up(view, id)) continue;
      for (const auto& theirs : other.tablets) {
        require(!theirs.served || !overlap(tablet, theirs),
                "table {}: servers {} and {} both serve from {:#x} on", tablet.table_id, own, id,
                std::max(tablet.start_hash, theirs.start_hash));
      }
    }
  }
}

void Invariants::check_log(const ClusterView::Server& server) {
  const uint64_t id = server.numbers.server_id;
  const log::LogPosition durable = server.numbers.durable;
  std::vector<uint64_t> live;
  for (const auto& segment : server.segments) {
    live.push_back(segment.id);
    require(segment.id != durable.segment_id() || durable.offset() <= segment.published,
            "server {}: {} is durable, and segment {} has only {} bytes published", id, durable,
            segment.id, segment.published);
  }
  require(server.digest == live, "server {}: the newest digest names segments {}, live are {}", id,
          fmt::join(server.digest, " "), fmt::join(live, " "));
}

void Invariants::check_replicas(const ClusterView::Server& server) {
  const uint64_t id = server.numbers.server_id;
  for (const auto& replica : server.replicas) {
    if (!replica.counts) continue;
    const Name name{id, replica.segment_id, replica.backup_id};
    for (const auto& segment : server.segments) {
      if (segment.id != replica.segment_id) continue;
      const uint32_t durable = durable_bytes(segment, server.numbers.durable);
      require(replica.acked >= durable, "{} counts with {} bytes, and {} are durable", name,
              replica.acked, durable);
    }
    if (!replica.backup_runs) continue;
    require(replica.found, "{} counts, and is not there", name);
    if (!replica.found) continue;
    require(replica.bytes_held >= replica.acked, "{} has {} bytes, and has acknowledged {}", name,
            replica.bytes_held, replica.acked);
    require(!replica.differs_at, "{} differs from the log at {}", name,
            replica.differs_at.value_or(0));
    require(replica.held_epoch >= replica.acked_epoch, "{} is of epoch {}, and has acknowledged {}",
            name, replica.held_epoch, replica.acked_epoch);
    require(!replica.incomplete, "{} counts, and recovery would not see it", name);
    require(!replica.closed || replica.held_closed, "{} is not closed, and has acknowledged that",
            name);
  }
}

void Invariants::check_epochs(const ClusterView& view, const ClusterView::Server& server) {
  const uint64_t id = server.numbers.server_id;
  if (view.leader == nullptr || !is_up(view, id)) return;
  const auto found = view.leader->replication_epochs.find(id);
  const bool raised = found != view.leader->replication_epochs.end();
  const uint32_t known = raised ? found->second.epoch : 0;
  require(known <= server.numbers.epoch,
          "server {} is in replication epoch {}, and the coordinator knows of {}", id,
          server.numbers.epoch, known);
  require(!server.fence_holds || known == server.numbers.epoch,
          "server {}: its fence holds in replication epoch {}, and the coordinator knows of {}", id,
          server.numbers.epoch, known);
}

void Invariants::check_listed(const ClusterView::Server& server) {
  for (const auto& [id, state] : server.listed) {
    const auto [seen, added] = listed_.try_emplace({server.numbers.life, id}, state);
    require(added || state >= seen->second, "server {}: it lists server {} as UP again",
            server.numbers.server_id, id);
    seen->second = std::max(seen->second, state);
  }
}

void Invariants::check_accounting(const ClusterView::Server& server) {
  const uint64_t id = server.numbers.server_id;
  uint64_t live = server.live_beside;
  for (const auto& segment : server.segments) {
    require(segment.live_bytes <= segment.entry_bytes && segment.entry_bytes <= segment.published,
            "server {}, segment {}: {} bytes are live of {} appended in {} published", id,
            segment.id, segment.live_bytes, segment.entry_bytes, segment.published);
    live += segment.live_bytes;
  }
  uint64_t objects = 0, object_bytes = 0;
  for (const auto& tablet : server.tablets) {
    objects += tablet.objects;
    object_bytes += tablet.object_bytes;
  }
  require(object_bytes <= live, "server {}: its tablets count {} bytes, and only {} are live", id,
          object_bytes, live);
  const bool recovered =
      std::ranges::any_of(server.tablets, [](const auto& tablet) { return tablet.recovered; });
  const bool too_many = !recovered && server.slots_used > objects + server.pending_deletes;
  require(objects <= server.slots_used && !too_many,
          "server {}: its hash table has {} entries, for {} objects and at most {} fresh deletes",
          id, server.slots_used, objects, server.pending_deletes);
  if (!server.broken.empty()) broken_ += fmt::format("server {}: {}\n", id, server.broken);
}

}  // namespace ramcloud::sim
