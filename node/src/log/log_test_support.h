// For tests of the log and of what stands on it: a Replicator whose progress the test decides.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "log/log.h"

namespace ramcloud::log {

inline constexpr std::array<uint8_t, 16> kTestCluster{
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f};
inline constexpr uint64_t kTestMaster = 7;

/// The published bytes of a segment, contiguous, as a replica has them.
inline std::string image_of(const Segment& segment, uint32_t length = kSegmentBytes) {
  const SegmentBytes bytes = segment.bytes();
  std::string image(std::min(length, bytes.size()), '\0');
  bytes.read(0, image.data(), static_cast<uint32_t>(image.size()));
  return image;
}

/// Replicas that exist only as lengths: how far each segment's bytes are durable. Nothing moves
/// until a finish_…() or step() says so, unless `immediate`.
class FakeReplicator final : public Replicator {
 public:
  explicit FakeReplicator(bool immediate = false) : immediate_(immediate) {}
  void attach(Log& log) { log_ = &log; }

  void segment_opened(Segment& segment) override {
    events.push_back("open " + std::to_string(segment.id()));
    replicas_.push_back({&segment, 0});
    if (immediate_) finish_all();
  }
  void segment_closed(Segment& segment) override {
    events.push_back("close " + std::to_string(segment.id()));
    if (immediate_) finish_all();
  }
  void segment_removed(Segment& segment) override {
    events.push_back("removed " + std::to_string(segment.id()));
    std::erase_if(replicas_, [&](const Replica& r) { return r.segment == &segment; });
    segment.mark_released();
  }

  /// The replicas keep the bytes that they have.
  void segment_compacted(Segment& before, Segment& after) override {
    events.push_back("compacted " + std::to_string(before.id()));
    Replica& replica = find(before.id());
    if (keeps_originals && replica.original.empty()) replica.original = image_of(before);
    replica.segment = &after;
    replica.durable = after.published();
    before.mark_released();
  }

  void sync_wanted(LogPosition position) override {
    sync_wanted_ = std::max(sync_wanted_, position);
    if (syncs) finish_sync();
  }
  /// What was wanted so far is on devices.
  void finish_sync() { log_->set_synced(sync_wanted_); }

  void finish_open(uint64_t id) {
    Replica& replica = find(id);
    replica.durable = std::max(replica.durable, replica.segment->header_length());
    replica.segment->mark_opened_durable();
    events.push_back("opened " + std::to_string(id));
    report();
  }
  /// Makes up to max_bytes more of the segment durable, whole groups.
  void finish_data(uint64_t id, uint32_t max_bytes = kSegmentBytes) {
    Replica& replica = find(id);
    replica.durable = replica.segment->chunk_end(replica.durable, max_bytes);
    report();
  }
  void finish_close(uint64_t id) {
    Replica& replica = find(id);
    replica.durable = replica.segment->published();
    replica.segment->mark_closed_durable();
    events.push_back("closed " + std::to_string(id));
    report();
  }
  /// Everything there is to do now, until nothing is left.
  void finish_all() {
    while (step_one(nullptr)) {
    }
  }
  /// One thing that can be done, by chance; false when there was nothing to do.
  bool step(Random& random) { return step_one(&random); }

  struct Replica {
    Segment* segment;
    uint32_t durable;
    std::string original = {};  // what it had when it was closed, if the segment was compacted
  };
  const std::vector<Replica>& replicas() const { return replicas_; }
  std::vector<std::string> events;
  bool syncs = true;  // at once
  bool keeps_originals = false;

 private:
  Replica& find(uint64_t id) {
    return *std::find_if(replicas_.begin(), replicas_.end(),
                         [&](const Replica& r) { return r.segment->id() == id; });
  }
  bool step_one(Random* random) {
    for (size_t i = 0; i < replicas_.size(); ++i) {
      Replica& r = replicas_[i];
      if (r.segment->closed_durable()) continue;
      if (!r.segment->opened_durable()) {
        if (random && random->chance(0.5)) continue;
        finish_open(r.segment->id());
        return true;
      }
      if (r.durable < r.segment->published()) {
        const auto most = random ? random->below(1 << 20) : kSegmentBytes;
        finish_data(r.segment->id(), static_cast<uint32_t>(most));
        return true;
      }
      if (r.segment->closed()) {
        finish_close(r.segment->id());
        return true;
      }
    }
    return false;
  }
  /// What a real one does: the durable position is in the first head that is not closed durable.
  void report() {
    if (log_ == nullptr) return;
    for (const Replica& r : replicas_) {
      if (r.segment->side() || r.segment->abandoned()) continue;
      if (!r.segment->opened_durable()) break;
      log_->set_durable(r.segment->position(r.durable));
      if (!r.segment->closed_durable()) break;
    }
    log_->on_replication_progress();
  }
  bool immediate_;
  Log* log_ = nullptr;
  std::vector<Replica> replicas_;
  LogPosition sync_wanted_;
};

inline LogOptions test_log_options(uint32_t reserve_segments = 1, uint32_t cleaner_segments = 0) {
  LogOptions options;
  options.cluster_uuid = kTestCluster;
  options.master_id = kTestMaster;
  options.reserve_segments = reserve_segments;
  options.cleaner_segments = cleaner_segments;
  return options;
}

/// A log with its arena and a fake replicator.
struct TestLog {
  explicit TestLog(uint32_t segments, bool immediate = true, uint32_t reserve_segments = 1,
                   bool started = true, uint32_t cleaner_segments = 0, uint32_t most_segments = 0)
      : arena(uint64_t{segments} * kSegmentBytes,
              {.try_huge_pages = false,
               .prefault = false,
               .most_bytes = uint64_t{most_segments} * kSegmentBytes}),
        replicator(immediate),
        log(arena, replicator, test_log_options(reserve_segments, cleaner_segments)) {
    replicator.attach(log);
    if (started) log.start();
  }
  Arena arena;
  FakeReplicator replicator;
  Log log;
};

/// An object entry; keeps the body's head while the source is used.
struct TestObject {
  TestObject(uint64_t table, uint64_t version, ByteView key, ByteView value)
      : body{.table_id = table,
             .version = version,
             .timestamp_s = 1'700'000'000,
             .key_length = static_cast<uint16_t>(key.size()),
             .extra_keys = 0,
             .flags = 0},
        source{EntryType::kObject, 3, {Slice(&body, sizeof body), Slice(key), Slice(value)}} {}
  ObjectBody body;
  EntrySource source;
};

struct TestTombstone {
  TestTombstone(uint64_t table, uint64_t version, uint64_t segment, ByteView key, bool is_delete)
      : body{.table_id = table,
             .version = version,
             .log_id = kTestMaster,
             .segment_id = segment,
             .timestamp_s = 1'700'000'001,
             .key_length = static_cast<uint16_t>(key.size()),
             .flags = static_cast<uint16_t>(is_delete ? 1 : 0)},
        source{EntryType::kTombstone, 2, {Slice(&body, sizeof body), Slice(key)}} {}
  TombstoneBody body;
  EntrySource source;
};

inline StatusCode append_object(Log& log, uint64_t table, uint64_t version, ByteView key,
                                ByteView value, Appended* appended = nullptr,
                                const char** ref = nullptr) {
  const TestObject object(table, version, key, value);
  Appended ignored;
  const char* ignored_ref = nullptr;
  return log.append(std::span(&object.source, 1), false, appended ? *appended : ignored,
                    ref ? ref : &ignored_ref);
}

}  // namespace ramcloud::log
