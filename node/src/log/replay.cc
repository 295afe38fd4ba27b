#include "log/replay.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/hash.h"
#include "log/owned_tablets.h"

namespace ramcloud::log {
namespace {

/// Whether a replica may be chosen.
bool is_usable(const ReplicaReport& replica, bool must_be_closed) {
  const SegmentScan& scan = replica.scan;
  if (must_be_closed) return scan.end == ScanEnd::kClosed;
  return !replica.stale && scan.end != ScanEnd::kCorrupt && scan.valid_bytes > 0;
}

using Key = std::pair<uint64_t, ByteView>;
struct KeyHash {
  size_t operator()(const Key& key) const { return key_hash(key.first, key.second); }
};

/// The newest version of a key found so far; its entries may come in any order.
struct Newest {
  ReplayedObject object;    // version 0: none seen
  uint64_t dead_up_to = 0;  // highest version of a tombstone
  bool live() const { return object.version > dead_up_to; }
};

}  // namespace

struct Replay::State {
  std::array<uint8_t, 16> cluster_uuid;
  uint64_t master_id;
  std::map<uint64_t, std::vector<size_t>> by_segment;  // indexes into images and reports
  std::vector<ReplicaImage> images;
  std::vector<ReplicaReport> reports;
  std::unordered_map<Key, Newest, KeyHash> newest;
  std::vector<const Newest*> live;  // by table and key, after run()
  ReplayReport report;

  std::optional<ReplicationFence> fence;
  std::optional<OwnedTablets> owned;  // by the digest's head; none: it has no list

  bool was_closed(uint64_t segment_id) const;
  bool is_closed(uint64_t segment_id) const;
  uint32_t epoch_of(size_t i) const {
    return std::max(images[i].epoch, reports[i].scan.replication_epoch);
  }
  void find_stale();
  std::optional<size_t> newest_digest();
  void read_owned_tablets(ByteView head);
  bool is_owned(const ObjectView& object, uint64_t segment_id) const;
  Status choose(uint64_t segment_id, bool must_be_closed, size_t& chosen);
  uint64_t head_before(const std::set<uint64_t>& members) const;
  Status choose_all(const SegmentScan& digest, std::vector<size_t>& chosen);
  Status replay(const ReplicaImage& image);
  Status apply(const EntryView& entry, uint64_t segment_id);
  void sort_live();
};

Replay::Replay(std::array<uint8_t, 16> cluster_uuid, uint64_t master_id)
    : state_(std::make_unique<State>()) {
  state_->cluster_uuid = cluster_uuid;
  state_->master_id = master_id;
}

Replay::~Replay() = default;

const ReplayReport& Replay::report() const {
  return state_->report;
}

void Replay::set_fence(const ReplicationFence& fence) {
  state_->fence = fence;
}

void Replay::add(ReplicaImage image) {
  const SegmentIdentity identity{state_->cluster_uuid, state_->master_id, image.segment_id};
  ReplicaReport report{.segment_id = image.segment_id,
                       .name = image.name,
                       .scan = scan_segment(identity, SegmentBytes(image.bytes), image.known),
                       .stale = false,
                       .chosen = false};
  state_->by_segment[image.segment_id].push_back(state_->images.size());
  state_->images.push_back(std::move(image));
  state_->reports.push_back(std::move(report));
}

/// Any replica of the segment has a footer, even after a hole. Then the next head was opened before
/// that.
bool Replay::State::was_closed(uint64_t segment_id) const {
  return is_closed(segment_id) || std::ranges::any_of(by_segment.at(segment_id), [&](size_t i) {
           return reports[i].scan.footer_after_hole;
         });
}

/// A segment is closed if any replica shows it. Replicas that do not show it were lost before.
bool Replay::State::is_closed(uint64_t segment_id) const {
  const auto found = by_segment.find(segment_id);
  if (found == by_segment.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](size_t i) {
    return reports[i].scan.end == ScanEnd::kClosed || images[i].known.closed_length.has_value();
  });
}

/// Finds stale replicas: not closed, and with an old epoch. (A closed replica is complete, even if
/// its backup was lost later.)
void Replay::State::find_stale() {
  for (const auto& [id, indexes] : by_segment) {
    ReplicationFence holds = fence.value_or(ReplicationFence{});
    for (const size_t i : indexes) {
      if (!fence) holds.epoch = std::max(holds.epoch, epoch_of(i));
    }
    for (const size_t i : indexes) {
      reports[i].stale = reports[i].scan.end != ScanEnd::kClosed &&
                         (id < holds.lowest_open_segment || epoch_of(i) < holds.epoch);
    }
  }
}

/// The digest of the newest open head [Ousterhout15 §4.5]. A closed head's digest is not eligible:
/// a newer head, now lost, must have followed it.
std::optional<size_t> Replay::State::newest_digest() {
  for (auto it = by_segment.rbegin(); it != by_segment.rend(); ++it) {
    bool any_digest = false;
    for (const size_t i : it->second) {
      const SegmentScan& scan = reports[i].scan;
      if (!scan.is_head || scan.digest.empty() || reports[i].stale) continue;
      any_digest = true;
      if (was_closed(it->first)) break;
      report.digest_segment = it->first;
      return i;
    }
    if (any_digest) return std::nullopt;
  }
  return std::nullopt;
}

/// The list in the header of this head, which was verified. Heads of former builds have none.
void Replay::State::read_owned_tablets(ByteView head) {
  const SegmentBytes bytes(head);
  const GroupView header(bytes, 0, bytes.load_at<GroupHeader>(0));
  for (auto e = header.first(); e; e = header.next(*e)) {
    if (e->view.type() != EntryType::kOwnedTablets) continue;
    owned = decode_owned_tablets(e->view.contiguous(0, e->view.body_length()));
  }
}

/// The head lists what the master owned when the head was opened. A tablet that it took later has
/// no object in the segments before that head.
bool Replay::State::is_owned(const ObjectView& object, uint64_t segment_id) const {
  if (!owned || segment_id >= report.digest_segment) return true;
  const uint64_t hash =
      hash_of_key(object.table_id, object.entry, ObjectView::key_offset, object.key_length);
  const OwnedTablet* tablet = find_owned(*owned, object.table_id, hash);
  return tablet != nullptr && segment_id >= tablet->first_segment;
}

Status Replay::State::choose(uint64_t segment_id, bool must_be_closed, size_t& chosen) {
  const SegmentScan* best = nullptr;
  uint32_t durable_up_to = 0;
  const ReplicaReport* bad = nullptr;
  for (const size_t i : by_segment.at(segment_id)) {
    const SegmentScan& scan = reports[i].scan;
    durable_up_to = std::max(durable_up_to, scan.durable_up_to);
    if (!is_usable(reports[i], must_be_closed)) {
      bad = &reports[i];
    } else if (best == nullptr || scan.valid_bytes > best->valid_bytes) {
      best = &scan;
      chosen = i;
    }
  }
  // A closed replica is complete even if it is shorter than `durable_up_to`: compaction may have
  // left durable entries out.
  if (best != nullptr && (must_be_closed || best->valid_bytes >= durable_up_to)) return {};
  std::string why = "segment " + std::to_string(segment_id) + ": no replica is usable";
  if (best != nullptr) {
    why += "; the longest has " + std::to_string(best->valid_bytes) + " bytes, but " +
           std::to_string(durable_up_to) + " were durable";
  } else if (bad != nullptr) {
    why += "; " + bad->name + " at offset " + std::to_string(bad->scan.bad_offset) + ": " +
           (!bad->scan.what.empty() ? bad->scan.what
            : bad->stale            ? "the replica is of a replication epoch that is over"
                                    : "the segment was closed, the replica is not");
  }
  return {StatusCode::kCorrupt, why};
}

/// The head before the newest; 0: none. (A side segment is closed before a digest names it.)
uint64_t Replay::State::head_before(const std::set<uint64_t>& members) const {
  const auto is_head = [this](uint64_t id) {
    return std::ranges::any_of(by_segment.at(id),
                               [&](size_t i) { return reports[i].scan.is_head; });
  };
  const auto found = std::find_if(std::next(members.rbegin()), members.rend(), is_head);
  return found == members.rend() ? 0 : *found;
}

Status Replay::State::choose_all(const SegmentScan& digest, std::vector<size_t>& chosen) {
  const std::set<uint64_t> members(digest.digest.begin(), digest.digest.end());
  for (const uint64_t id : members) {
    if (!by_segment.contains(id)) report.missing.push_back(id);
  }
  for (const auto& [id, indexes] : by_segment) {
    if (!members.contains(id)) report.not_in_digest.push_back(id);
  }
  if (!report.missing.empty()) {
    return {StatusCode::kNotFound,
            "the log is not complete: of " + std::to_string(members.size()) +
                " segments in the digest " + std::to_string(report.missing.size()) +
                " are missing, the first is " + std::to_string(report.missing.front())};
  }
  // Data is written to a head only after all before it were closed. So if the newest head has data,
  // the others must be closed. If it is empty, the head before it may still be open.
  const auto last = members.rbegin();
  bool newest_has_data = false;
  for (const size_t i : by_segment.at(*last)) {
    const SegmentScan& scan = reports[i].scan;
    newest_has_data = newest_has_data || scan.groups > 1 || scan.groups_after_hole > 0;
  }
  const uint64_t before = head_before(members);
  for (const uint64_t id : members) {
    const bool may_be_open = id == *last || (id == before && !newest_has_data && !is_closed(id));
    size_t index = 0;
    RC_RETURN_IF_ERROR(choose(id, !may_be_open, index));
    chosen.push_back(index);
    reports[index].chosen = true;
  }
  return {};
}

Status Replay::run() {
  State& s = *state_;
  s.find_stale();
  const std::optional<size_t> digest = s.newest_digest();
  std::vector<size_t> chosen;
  Status status =
      digest ? s.choose_all(s.reports[*digest].scan, chosen)
             : Status(StatusCode::kNotFound,
                      "no replica of an open segment with a log digest: the newest is not known");
  for (const auto& [id, indexes] : s.by_segment) {
    for (const size_t i : indexes) s.report.replicas.push_back(s.reports[i]);
  }
  if (digest) s.read_owned_tablets(s.images[*digest].bytes);
  for (size_t i = 0; i < chosen.size() && status.ok(); ++i) {
    s.report.safe_version = std::max(s.report.safe_version, s.reports[chosen[i]].scan.safe_version);
    status = s.replay(s.images[chosen[i]]);
  }
  if (status.ok()) s.sort_live();
  return status;
}

Status Replay::State::replay(const ReplicaImage& image) {
  const SegmentIdentity identity{cluster_uuid, master_id, image.segment_id};
  Status status;
  scan_segment(identity, SegmentBytes(image.bytes), image.known, [&](const GroupView& group) {
    for (auto e = group.first(); e && status.ok(); e = group.next(*e)) {
      status = apply(e->view, image.segment_id);
    }
  });
  if (status.ok()) return status;
  return {status.code(), "segment " + std::to_string(image.segment_id) + " (" + image.name +
                             "): " + status.message()};
}

Status Replay::State::apply(const EntryView& entry, uint64_t segment_id) {
  switch (entry.type()) {
    case EntryType::kSegmentHeader:
    case EntryType::kLogDigest:
    case EntryType::kSafeVersion:
    case EntryType::kFooter:
    case EntryType::kOwnedTablets:
      return {};
    case EntryType::kObject: {
      const auto o = parse_object(entry);
      if (!o) return {StatusCode::kCorrupt, "an object whose lengths do not fit"};
      ++report.objects_seen;
      report.safe_version = std::max(report.safe_version, o->version + 1);
      if (!is_owned(*o, segment_id)) {
        ++report.objects_not_owned;
        return {};
      }
      Newest& n = newest[{o->table_id, entry.contiguous(o->key_offset, o->key_length)}];
      if (o->version > n.object.version) {
        n.object = {.table_id = o->table_id,
                    .version = o->version,
                    .timestamp_s = o->timestamp_s,
                    .key = entry.contiguous(o->key_offset, o->key_length),
                    .value = entry.contiguous(o->value_offset, o->value_length)};
      }
      return {};
    }
    case EntryType::kTombstone: {
      const auto t = parse_tombstone(entry);
      if (!t) return {StatusCode::kCorrupt, "a tombstone whose lengths do not fit"};
      // Also of a tablet that is not owned: it is true of every log that still has the object.
      ++report.tombstones_seen;
      report.safe_version = std::max(report.safe_version, t->version + 1);
      Newest& n = newest[{t->table_id, entry.contiguous(t->key_offset, t->key_length)}];
      n.dead_up_to = std::max(n.dead_up_to, t->version);
      return {};
    }
    default:
      return {StatusCode::kUnsupported, "an entry of type " +
                                            std::to_string(static_cast<int>(entry.type())) +
                                            ", which this version does not know"};
  }
}

void Replay::State::sort_live() {
  for (const auto& [key, n] : newest) {
    if (n.live()) live.push_back(&n);
  }
  std::sort(live.begin(), live.end(), [](const Newest* a, const Newest* b) {
    return std::pair(a->object.table_id, a->object.key) <
           std::pair(b->object.table_id, b->object.key);
  });
}

void Replay::for_each(const std::function<void(const ReplayedObject&)>& sink) const {
  for (const Newest* n : state_->live) sink(n->object);
}

void Replay::for_each_dead(const std::function<void(const DeadKey&)>& sink) const {
  for (const auto& [key, n] : state_->newest) {
    if (n.dead_up_to > 0) sink({.table_id = key.first, .version = n.dead_up_to, .key = key.second});
  }
}

uint64_t Replay::live_objects() const {
  return state_->live.size();
}

}  // namespace ramcloud::log
