#include "sim/view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "backup/replica_service.h"
#include "log/group_reader.h"
#include "replication/replica_manager.h"
#include "store/object_store.h"

namespace ramcloud::sim {
namespace {

using Parts = server::ServerNode::Parts;

/// The first byte in [from, to) in which a replica differs from the segment in memory.
std::optional<uint32_t> first_difference(const log::Segment& segment, const FrameStore& frames,
                                         uint32_t frame, uint32_t from, uint32_t to) {
  std::string on_disk;
  for (uint32_t at = from; at < to;) {
    const auto size = std::min(to - at, log::kSegletBytes);
    on_disk.resize(size);
    if (!frames.read(frame, at, on_disk.data(), size).ok()) return at;
    const log::SegmentBytes bytes = segment.bytes();
    if (!bytes.equals(at, on_disk)) {
      uint32_t i = 0;
      while (bytes.equals(at + i, ByteView(on_disk).substr(i, 1))) ++i;
      return at + i;
    }
    at += size;
  }
  return std::nullopt;
}

using Entries = std::multiset<std::pair<uint32_t, uint32_t>>;  // length, checksum

log::SegmentScan entries_of(const log::Segment& segment, const log::SegmentBytes& bytes,
                            Entries& entries) {
  return log::scan_segment(segment.identity(), bytes, {}, [&](const log::GroupView& group) {
    for (auto e = group.first(); e; e = group.next(*e)) {
      const bool counts = e->view.type() != log::EntryType::kFooter;
      if (counts) entries.emplace(e->view.total_length(), e->view.stored_checksum());
    }
  });
}

/// For a replica from before a compaction: checks that it is complete and has all entries that are
/// in memory. Returns the first place where that is wrong.
std::optional<uint32_t> lacks_entries(const log::Segment& segment, const FrameStore& frames,
                                      uint32_t frame, uint32_t length) {
  std::string on_disk(length, '\0');
  if (!frames.read(frame, 0, on_disk.data(), length).ok()) return 0;
  Entries needed, there;
  (void)entries_of(segment, segment.bytes(), needed);
  const auto scan = entries_of(segment, log::SegmentBytes(ByteView(on_disk)), there);
  if (scan.end != log::ScanEnd::kClosed || scan.valid_bytes != length) return scan.bad_offset;
  if (!std::ranges::includes(there, needed)) return 0;
  return std::nullopt;
}

void look_at_replica(const ReplicaSlot& slot, const ClusterView::Server& master,
                     const std::vector<Running>& running, Compared& compared,
                     ClusterView::Replica& replica) {
  const uint64_t master_id = master.numbers.server_id;
  replica.segment_id = slot.segment().id();
  replica.backup_id = slot.server_id();
  replica.counts = slot.counts();
  replica.closed = slot.closed();
  replica.acked = slot.acked();
  replica.acked_epoch = slot.acked_epoch();
  const auto backup = std::ranges::find_if(
      running, [&](const Running& other) { return other.server->server_id() == slot.server_id(); });
  replica.backup_runs = backup != running.end();
  if (!replica.backup_runs) return;
  const Parts parts = backup->server->parts();
  const auto held = parts.backup->find(master_id, replica.segment_id);
  replica.found = held.has_value();
  if (!held) return;
  replica.incomplete = held->incomplete;
  replica.held_closed = held->closed;
  replica.bytes_held = held->bytes;
  replica.held_epoch = held->epoch;
  if (!replica.counts) return;
  uint32_t& upto = compared.upto(master_id, replica.segment_id, replica.backup_id);
  const uint32_t end = std::min(replica.acked, replica.bytes_held);
  const log::Segment& segment = slot.segment();
  if (segment.compactions() > 0 && slot.closed()) {
    if (upto < end) replica.differs_at = lacks_entries(segment, *parts.frames, held->frame, end);
  } else {
    replica.differs_at =
        first_difference(segment, *parts.frames, held->frame, std::min(upto, end), end);
  }
  if (!replica.differs_at) upto = end;
}

/// The digest in a segment's first group.
std::vector<uint64_t> digest_of(const log::Segment& segment) {
  std::string header(segment.header_length(), '\0');
  segment.bytes().read(0, header.data(), segment.header_length());
  return log::scan_segment(segment.identity(), log::SegmentBytes(ByteView(header))).digest;
}

void look_at_store(store::ObjectStore& store, ClusterView::Server& view) {
  const auto segments = store.log().segments();
  for (const log::Segment* segment : segments) {
    view.segments.push_back({segment->id(), segment->published(), segment->entry_bytes(),
                             segment->live_bytes(), segment->closed()});
  }
  for (const log::Segment* segment : store.log().others()) {
    view.live_beside += segment->live_bytes();
  }
  if (!segments.empty()) view.digest = digest_of(*segments.back());
  for (const auto& tablet : store.tablets()) {
    view.tablets.push_back({tablet.table_id, tablet.start_hash, tablet.end_hash,
                            tablet.state == store::TabletState::kNormal, tablet.objects,
                            tablet.object_bytes, tablet.attempt != 0});
  }
  view.slots_used = store.table().entries();
  view.pending_deletes = store.pending_deletes();
}

}  // namespace

ServerNumbers numbers_of(const server::ServerNode& server, uint64_t life) {
  const Parts parts = server.parts();
  ServerNumbers numbers;
  numbers.server_id = parts.store == nullptr ? 0 : server.server_id();
  numbers.life = life;
  numbers.list_term = parts.servers.term();
  numbers.list_version = parts.servers.version();
  if (parts.store != nullptr) {
    numbers.durable = parts.store->log().durable();
    numbers.appended = parts.store->log().head();
  }
  if (parts.replicas != nullptr) numbers.epoch = parts.replicas->fence().epoch();
  if (parts.backup != nullptr) {
    numbers.frames = parts.frames->frames_total();
    numbers.frames_free = parts.frames->frames_free();
    numbers.frames_quarantined = parts.frames->frames_quarantined();
    numbers.frames_held = parts.backup->replicas();
    numbers.frames_preparing = parts.backup->frames_preparing() + parts.frames->frames_ending();
    numbers.device_failed = !parts.backup->device_status().ok();
  }
  return numbers;
}

Backing backing_of(const server::ServerNode& server, log::LogPosition before) {
  const Parts parts = server.parts();
  Backing backing;
  if (parts.replicas == nullptr) return backing;
  const log::LogPosition durable = parts.store->log().durable();
  const auto complete = [&] { return backing.lacking == 0 && backing.holding >= backing.needed; };
  uint64_t segment_id = 0;
  bool lacks = false;
  parts.replicas->for_each_slot(before.segment_id(), [&](const ReplicaSlot& slot) {
    // Skip side segments that are being filled, and abandoned heads: no acknowledgement depends on
    // them.
    if (parts.store->log().find_segment(slot.segment().id()) == nullptr) return;
    // A side segment in the log was on its replicas before; a lost replica is repaired later.
    if (slot.segment().side() && slot.segment().closed_durable()) return;
    // All of it was durable before. A copy that is required from its last message on gates nothing.
    if (slot.segment().closed_durable() && slot.segment().id() == before.segment_id() &&
        before.offset() >= slot.segment().published()) {
      return;
    }
    if (slot.segment().id() != segment_id) {
      lacks = lacks || (segment_id != 0 && !complete());
      if (lacks || slot.segment().id() > durable.segment_id()) return;
      segment_id = slot.segment().id();
      backing = {.needed = parts.replicas->min_replicas()};
    }
    if (lacks) return;
    const bool left = segment_id < durable.segment_id();
    const bool holds =
        slot.counts() && (left ? slot.closed() && slot.acked() >= slot.segment().published()
                               : slot.acked() >= durable.offset());
    backing.holding += holds;
    backing.wanted += !slot.state().optional;
    backing.lacking += !slot.state().optional && !holds;
  });
  return backing;
}

ClusterView look_at(const std::vector<Running>& running, const ClusterState* leader,
                    Compared& compared, bool deep) {
  ClusterView view;
  view.leader = leader;
  for (const Running& one : running) {
    const Parts parts = one.server->parts();
    if (parts.store == nullptr) continue;
    ClusterView::Server& server = view.servers.emplace_back();
    server.numbers = numbers_of(*one.server, one.life);
    look_at_store(*parts.store, server);
    for (const ListedServer& listed : parts.servers.servers()) {
      server.listed.emplace_back(listed.server_id, listed.state);
    }
    if (deep) server.broken = one.server->check_invariants();
    if (parts.replicas == nullptr) continue;
    server.fence_holds = parts.replicas->fence().holds();
    parts.replicas->for_each_slot(0, [&](const ReplicaSlot& slot) {
      if (!slot.placed()) return;
      look_at_replica(slot, server, running, compared, server.replicas.emplace_back());
    });
  }
  return view;
}

}  // namespace ramcloud::sim
