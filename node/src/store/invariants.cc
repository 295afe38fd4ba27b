#include "store/invariants.h"

#include <map>
#include <set>

#include "base/hash.h"
#include "log/group_reader.h"

namespace ramcloud::store {

using log::EntryType;

struct Invariants::State {
  std::vector<std::string> broken;
  std::set<std::pair<uint64_t, std::string>> keys;
  std::map<const log::Segment*, uint64_t> live;
  std::map<const Tablet*, uint64_t> objects;
  uint64_t highest_version = 0;
  uint64_t tombstone_slots = 0;
  uint64_t entries = 0;
  void require(bool holds, const std::string& what) {
    if (!holds) broken.push_back(what);
  }
};

std::vector<std::string> Invariants::check() {
  State state;
  state_ = &state;
  state.broken = log_.check();
  check_slots();
  check_accounting();
  check_dead_copies();
  state_ = nullptr;
  return std::move(state.broken);
}

void Invariants::check_slots() {
  for (uint64_t bucket = 0; bucket < store_.table_.bucket_count(); ++bucket) {
    store_.table_.scan_bucket(bucket, [&](const char* address, uint16_t tag, uint32_t) {
      check_slot(bucket, tag, address);
    });
  }
  state_->require(state_->entries == store_.table_.entries(), "the table counts its entries");
  state_->require(state_->tombstone_slots <= store_.pending_deletes(),
                  "each tombstone in a slot waits for sweep");
  state_->require(state_->highest_version < store_.safe_version(),
                  "the safe version is above all versions");
}

void Invariants::check_slot(uint64_t bucket, uint16_t tag, const char* address) {
  State& s = *state_;
  ++s.entries;
  const log::Log& log = store_.log_;
  const std::string slot = "slot in bucket " + std::to_string(bucket) + ": ";
  if (!log.arena().contains(address) || log.arena().segment_of(address) == nullptr) {
    return s.require(false, slot + "points at a segment");
  }
  const log::Segment* segment = log.arena().segment_of(address);
  s.require(log_.may_be_referred_to(*segment), slot + "its segment has not left the log");
  s.require(log.position_of(address).offset() <= segment->published(), slot + "is published");
  const log::EntryView entry = log.entry(address);
  s.require(entry.verify(), slot + "the entry's checksum holds");
  const auto object = log::parse_object(entry);
  const auto tombstone = log::parse_tombstone(entry);
  if (!object && !tombstone) return s.require(false, slot + "an object or a tombstone");
  const uint64_t table = object ? object->table_id : tombstone->table_id;
  std::string key(object ? object->key_length : tombstone->key_length, '\0');
  entry.read(object ? object->key_offset : tombstone->key_offset, key.data(),
             static_cast<uint32_t>(key.size()));
  const uint64_t hash = key_hash(table, key);
  s.require(store_.table_.bucket_of(hash) == bucket && HashTable::tag_of(hash) == tag,
            slot + "the key has this bucket and tag");
  s.require(s.keys.emplace(table, key).second, slot + "the key has no other slot");
  s.highest_version = std::max(s.highest_version, object ? object->version : tombstone->version);
  if (tombstone) {
    // Recovered tombstones do not wait for sweep(): RecoveredSlots clears them.
    s.tombstone_slots += segment->side() ? 0 : 1;
    return;
  }
  s.live[segment] += entry.total_length();
  Tablet* tablet = store_.tablets_.find(table, hash);
  s.require(tablet != nullptr, slot + "the object is in a tablet");
  ++s.objects[tablet];
}

void Invariants::check_dead_copies() {
  for (const uint64_t survivor : store_.cleaned_.survivors_with_dead_copies()) {
    // Its pass will call segment_left() in its next step.
    const bool leaves = store_.cleaned_.being_cleaned(survivor);
    state_->require(leaves || store_.log_.may_be_found(survivor),
                    "segment " + std::to_string(survivor) + " has left, and its dead copies stay");
  }
}

void Invariants::check_accounting() {
  State& s = *state_;
  // A segment's live bytes are those of entries that slots point at, and of all tombstones.
  for (const log::Segment* segment : store_.log_.segments()) {
    uint64_t live = s.live[segment];
    log::scan_segment(segment->identity(), segment->bytes(), {}, [&](const log::GroupView& group) {
      for (auto e = group.first(); e; e = group.next(*e)) {
        if (e->view.type() == EntryType::kTombstone) live += e->view.total_length();
      }
    });
    s.require(live == segment->live_bytes(), "segment " + std::to_string(segment->id()) +
                                                 " accounts for " +
                                                 std::to_string(segment->live_bytes()) +
                                                 " live bytes, has " + std::to_string(live));
  }
  for (const Tablet* tablet : store_.tablets_.all()) {
    s.require(static_cast<int64_t>(s.objects[tablet]) == tablet->net_objects(),
              "table " + std::to_string(tablet->table_id) + ": a tablet counts " +
                  std::to_string(tablet->net_objects()) + " objects, has " +
                  std::to_string(s.objects[tablet]));
  }
}

}  // namespace ramcloud::store
