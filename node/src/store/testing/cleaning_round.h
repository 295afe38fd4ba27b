// Rounds of cleaning, combined and compaction, under random writes, overwrites, deletes and dropped
// tablets, with crashes: the replicas' entries are replayed in random order, and the result is
// compared with the acknowledged writes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "log/group_reader.h"
#include "log/log_test_support.h"
#include "log/replay.h"
#include "store/cleaning_pass.h"
#include "store/compaction_pass.h"
#include "store/invariants.h"
#include "store/tablet_replay.h"

namespace ramcloud::store::testing {

using log::LogPosition;
using Progress = log::CleaningWork::Progress;
using ::testing::IsEmpty;

constexpr wire::RejectRules kNoRules{};
constexpr uint64_t kStays = 1;    // a table whose tablet stays
constexpr uint64_t kReturns = 2;  // one whose tablet is dropped and taken again
constexpr TabletReplay::Range all_of(uint64_t table) {
  return {table, 0, ~uint64_t{0}};
}

/// A value is its length and a seed.
inline std::string value_of(uint64_t seed, uint32_t length) {
  std::string value(length, static_cast<char>('a' + seed % 26));
  for (uint32_t i = 0; i < std::min<uint32_t>(length, 8); ++i) {
    value[i] = static_cast<char>(seed >> (8 * i));
  }
  return value;
}

/// The state of a key after an operation; version 0: no object.
struct Outcome {
  uint64_t version = 0;
  uint64_t seed = 0;
  uint32_t length = 0;
  LogPosition depends_on;  // acknowledged when it is durable
};

struct Totals {
  uint64_t passes = 0, aborted = 0, without_memory = 0, crashes = 0, power_cuts = 0, returned = 0,
           segments = 0, compacted = 0, no_gain = 0, compacted_replicas = 0, resized = 0,
           not_resized = 0, not_owned = 0;
  uint64_t written_bytes = 0;
  CleaningPass::Counts counts;
  /// Everything that may happen happened in these rounds.
  void expect_complete(uint64_t rounds) const {
    EXPECT_GE(passes, rounds);
    EXPECT_GE(crashes, rounds);
    EXPECT_GE(power_cuts, rounds);
    EXPECT_GE(counts.objects, 1u);
    EXPECT_GE(counts.tombstones, 1u);
    EXPECT_GE(counts.tombstones_dropped, 1u);
    EXPECT_GE(counts.dead_copies, 1u);
    EXPECT_GE(counts.of_no_tablet, 1u);
    EXPECT_GE(returned, 1u);
    EXPECT_GE(aborted, 1u);
    EXPECT_GE(compacted, rounds);
    EXPECT_GE(compacted_replicas, 1u);
    EXPECT_GE(not_owned, 1u);
    EXPECT_GE(resized, 1u);
    EXPECT_GE(not_resized, 1u);
  }
  void add(const CleaningPass::Counts& c) {
    counts.objects += c.objects;
    counts.tombstones += c.tombstones;
    counts.tombstones_dropped += c.tombstones_dropped;
    counts.dead_copies += c.dead_copies;
    counts.of_no_tablet += c.of_no_tablet;
  }
};

/// One log with 8 segments of memory, 50 to 98 % used, and sometimes up to 14: at least 64 segments
/// are filled, and ten times the live bytes written.
class Round {
 public:
  /// `crash_chance`: of a crash, and of a power cut, after each operation. There is at least one of
  /// each.
  Round(uint64_t seed, double crash_chance, Totals& totals)
      : random_(seed),
        crash_chance_(crash_chance),
        totals_(totals),
        parts_(kSegments, false, 1, true, kCleanerSegments, kMostSegments),
        store_(parts_.log, clock_, {.buckets = 512, .max_pending_deletes = 4096}) {
    parts_.replicator.finish_all();
    parts_.replicator.syncs = false;  // but now and then
    parts_.replicator.keeps_originals = true;
    for (const uint64_t table : {kStays, kReturns}) {
      EXPECT_TRUE(store_.take_tablet(table, 0, ~uint64_t{0}).ok());
    }
    const double utilisation = 0.5 + 0.48 * static_cast<double>(random_.below(1000)) / 1000;
    target_bytes_ = static_cast<uint64_t>(utilisation * (kSegments - 1 - kCleanerSegments - 1) *
                                          log::kSegmentBytes);
    keys_ = 1 + target_bytes_ / kMeanBytes;
  }
  ~Round() { passes_.clear(); }

  void run() {
    for (uint64_t step = 0; step < 400'000 && !done(); ++step) {
      operate();
      clean();
      if (random_.chance(0.1)) tablets();
      resize();
      if (random_.chance(0.02)) (void)parts_.log.roll_head();
      progress(random_.below(4));
      clock_.advance(std::chrono::milliseconds(random_.below(50)));
      if (random_.chance(0.002)) expect_invariants();
      if (random_.chance(crash_chance_)) crash();
      if (random_.chance(crash_chance_)) power_cut();
      if (::testing::Test::HasFailure()) return;
    }
    expect_invariants();
    crash();
    power_cut();
    EXPECT_TRUE(done()) << "segment " << last_id() << ", " << written_ << " bytes written of "
                        << 10 * target_bytes_;
    totals_.segments += last_id();
    totals_.written_bytes += written_;
  }

 private:
  static constexpr uint32_t kSegments = 8, kMostSegments = 14;
  static constexpr uint32_t kCleanerSegments = 1;
  static constexpr uint64_t kMeanBytes = 24'000;
  using Key = std::pair<uint64_t, std::string>;

  uint64_t last_id() const { return parts_.log.head().segment_id(); }
  bool done() const { return last_id() >= 64 && written_ >= 10 * target_bytes_; }
  Key any_key() {
    const uint64_t table = random_.chance(0.8) ? kStays : kReturns;
    return {table, "key" + std::to_string(random_.below(keys_))};
  }
  uint32_t any_length() {
    const uint64_t kind = random_.below(100);
    const uint64_t most = kind < 50 ? 200 : kind < 80 ? 4000 : kind < 98 ? 128'000 : 1'048'576;
    return static_cast<uint32_t>(1 + random_.below(most));
  }

  void operate() {
    const Key key = any_key();
    Outcome outcome;
    const bool removes = random_.chance(0.15) || full_ > 20;
    StatusCode status;
    if (removes) {
      uint64_t version = 0;
      status = store_.remove(key.first, key.second, kNoRules, version, outcome.depends_on);
      // It changed nothing: the earlier operation that removed the object has to be synced.
      if (status == StatusCode::kOk && version == 0) return;
    } else {
      outcome.seed = random_.next();
      outcome.length = any_length();
      status = store_.write(key.first, key.second, value_of(outcome.seed, outcome.length), kNoRules,
                            outcome.version, outcome.depends_on);
      if (status == StatusCode::kOk) written_ += outcome.length;
    }
    if (status == StatusCode::kUnknownTablet) {
      EXPECT_FALSE(owned_ || key.first == kStays);
      return;
    }
    if (status == StatusCode::kOutOfMemory) ++full_;
    if (status == StatusCode::kRetry) progress(8);
    if (status != StatusCode::kOk) return;
    full_ = removes ? full_ : 0;
    if (removes) full_ -= std::min<uint64_t>(full_, 3);
    auto& outcomes = outcomes_[key];
    if (!removes) {
      EXPECT_GT(outcome.version, highest_[key]) << "versions rise";
      highest_[key] = outcome.version;
    }
    outcomes.push_back(outcome);
    forget_old(outcomes);
    if (random_.chance(0.3)) expect_read(any_key());
  }
  /// After a power cut the key may have only the last synced state, or a later one.
  void forget_old(std::vector<Outcome>& outcomes) const {
    outcomes.erase(outcomes.begin(), last_until(outcomes, parts_.log.synced()));
  }
  static std::vector<Outcome>::iterator last_until(std::vector<Outcome>& outcomes,
                                                   LogPosition position) {
    for (auto at = outcomes.end(); at != outcomes.begin();) {
      if ((--at)->depends_on <= position) return at;
    }
    return outcomes.begin();
  }
  void expect_read(const Key& key) {
    ReadResult result;
    const StatusCode status = store_.read(key.first, key.second, kNoRules, result);
    if (key.first == kReturns && !owned_) return;
    const auto found = outcomes_.find(key);
    if (found == outcomes_.end() || found->second.back().version == 0) {
      EXPECT_EQ(status, StatusCode::kNotFound) << key.second;
      return;
    }
    ASSERT_EQ(status, StatusCode::kOk) << key.second;
    EXPECT_TRUE(is(result, found->second.back())) << key.second;
  }
  static bool is(const ReadResult& result, const Outcome& outcome) {
    if (result.version != outcome.version || result.value_length != outcome.length) return false;
    return result.entry.verify() &&
           result.entry.equals(result.value_offset, value_of(outcome.seed, outcome.length));
  }

  void progress(uint64_t steps) {
    for (uint64_t i = 0; i < steps; ++i) (void)parts_.replicator.step(random_);
    if (random_.chance(0.05)) parts_.log.want_synced(parts_.log.durable());
    if (random_.chance(0.05)) parts_.replicator.finish_sync();
    if (random_.chance(0.5)) (void)store_.sweep(static_cast<uint32_t>(random_.below(50)));
    if (random_.chance(0.5)) parts_.log.reclaim(parts_.log.take_retired());
  }

  void clean() {
    const bool short_of_memory = !parts_.log.has_segment_for(log::MemoryPurpose::kWrites);
    if (passes_.size() < 2 && (short_of_memory || random_.chance(0.01))) begin_pass();
    const uint64_t steps = random_.below(short_of_memory ? 200 : 20);
    for (auto& pass : passes_) {
      for (uint64_t i = 0; i < steps; ++i) {
        const Progress now = pass->step();
        if (now == Progress::kMore) continue;
        if (now != Progress::kWaits) end_pass(pass, now);
        break;
      }
      if (pass == nullptr) continue;
      if (random_.chance(0.0002) && pass->abort()) ++totals_.aborted;
      if (short_of_memory && random_.chance(0.2)) pass->commit_now();
    }
    std::erase(passes_, nullptr);
  }
  void end_pass(std::unique_ptr<Relocation>& pass, Progress how) {
    const bool compaction = dynamic_cast<CompactionPass*>(pass.get()) != nullptr;
    if (how == Progress::kDone) {
      ++(compaction ? totals_.compacted : totals_.passes);
      totals_.add(pass->counts());
    } else {
      ++(how == Progress::kNoGain ? totals_.no_gain : totals_.without_memory);
    }
    pass.reset();
  }
  /// Chooses victims that free most, or any; few enough that survivors usually find memory.
  void begin_pass() {
    std::vector<log::Segment*> victims;
    for (log::Segment* segment : parts_.log.segments()) {
      if (may_clean(store_, *segment)) victims.push_back(segment);
    }
    const bool best = random_.chance(0.8);
    std::ranges::sort(victims, [](const log::Segment* a, const log::Segment* b) {
      const uint64_t of_a = uint64_t{a->live_bytes()} * b->memory_bytes();
      const uint64_t of_b = uint64_t{b->live_bytes()} * a->memory_bytes();
      return of_a != of_b ? of_a < of_b : a->id() < b->id();
    });
    if (random_.chance(0.5)) {
      const auto at = std::ranges::find_if(
          victims, [&](const log::Segment* victim) { return parts_.log.may_compact(*victim); });
      if (at != victims.end()) {
        passes_.push_back(std::make_unique<CompactionPass>(store_, **at));
        return;
      }
    }
    const uint64_t most = 1 + random_.below(8);
    std::vector<log::Segment*> chosen;
    uint64_t live = 0;
    while (!victims.empty() && chosen.size() < most) {
      const auto at =
          victims.begin() + static_cast<ptrdiff_t>(best ? 0 : random_.below(victims.size()));
      live += (*at)->live_bytes();
      if (live > log::kSegmentBytes * 3 / 4 && !chosen.empty()) break;
      chosen.push_back(*at);
      victims.erase(at);
    }
    if (!chosen.empty()) passes_.push_back(std::make_unique<CleaningPass>(store_, chosen));
  }

  void tablets() {
    if (owned_) {
      if (!random_.chance(0.01)) return;
      ASSERT_TRUE(store_.drop_table(kReturns).ok());
      newest_at_drop_ = parts_.log.newest_head();
      owned_ = false;
      purged_ = false;
      store_.may_purge(store_.drops());
      std::erase_if(outcomes_, [](const auto& entry) { return entry.first.first == kReturns; });
      return;
    }
    if (!purged_) {
      purged_ = !store_.purge_step();
      (void)store_.take_retired();
      return;
    }
    if (!random_.chance(0.1)) return;
    // As master::new_head(): the head is above all side segments that have entries.
    uint64_t before = last_id();
    for (const log::Segment* side : parts_.log.others()) before = std::max(before, side->id());
    do {
      const uint64_t present = last_id();
      if (!parts_.log.ready() || parts_.log.roll_head() != StatusCode::kOk) return;
      parts_.replicator.finish_all();
      ASSERT_GT(last_id(), present);
    } while (last_id() <= before);
    if (!parts_.log.ready()) return;
    first_segment_ = last_id();
    ASSERT_TRUE(store_.take_tablet(kReturns, 0, ~uint64_t{0}, first_segment_).ok());
    (void)store_.take_retired();
    owned_ = true;
    ++totals_.returned;
  }

  /// The log's memory grows and shrinks meanwhile.
  void resize() {
    if (random_.chance(0.0005)) {
      uint64_t live = 0;
      for (const auto& tablet : store_.tablets()) live += tablet.object_bytes;
      const uint64_t more = random_.chance(0.5) ? 0 : random_.below(kMostSegments - kSegments + 1);
      const uint64_t segments = kSegments + more;
      const bool accepted = parts_.log.resize(segments * log::kSegmentBytes, live).ok();
      ++(accepted ? totals_.resized : totals_.not_resized);
    }
    if (random_.chance(0.1)) (void)parts_.log.continue_resize();
    const log::Arena::Sizes now = parts_.arena.sizes();
    ASSERT_LE(now.used, now.limit);
    ASSERT_LE(now.limit, now.held);
  }

  void expect_invariants() {
    EXPECT_THAT(Invariants(store_).check(), IsEmpty());
    if (owned_) expect_no_old_tombstones();
  }
  /// Where a recovery looks for the tablet, each tombstone is of its time.
  void expect_no_old_tombstones() {
    for (const log::Segment* segment : parts_.log.segments()) {
      if (segment->id() < first_segment_) continue;
      log::scan_segment(segment->identity(), segment->bytes(), {}, [&](const log::GroupView& g) {
        for (auto e = g.first(); e; e = g.next(*e)) {
          const auto dead = log::parse_tombstone(e->view);
          if (!dead || dead->table_id != kReturns) continue;
          EXPECT_GE(dead->segment_id, first_segment_) << "in segment " << segment->id();
        }
      });
    }
  }

  // ---- a crash

  /// One replica of each segment, whichever is left: it may end anywhere behind what is durable.
  std::vector<std::pair<uint64_t, std::string>> images() {
    std::vector<std::pair<uint64_t, std::string>> images;
    for (const auto& replica : parts_.replicator.replicas()) {
      const log::Segment& segment = *replica.segment;
      if (!segment.opened_durable() && random_.chance(0.5)) continue;
      uint32_t length = std::max(replica.durable, segment.header_length());
      if (random_.chance(0.7)) {
        length += static_cast<uint32_t>(random_.below(segment.published() - length + 1));
      }
      if (segment.closed_durable()) {
        images.emplace_back(segment.id(), whole_image(replica));
      } else {
        images.emplace_back(segment.id(), log::image_of(segment, length));
      }
    }
    return images;
  }
  /// A replica of a compacted segment has the original bytes, or was made from the compacted ones.
  std::string whole_image(const log::FakeReplicator::Replica& replica) {
    const log::Segment& segment = *replica.segment;
    const bool may_be_compacted = parts_.log.synced() >= segment.judged();
    if (!replica.original.empty() && (!may_be_compacted || random_.chance(0.5))) {
      return replica.original;
    }
    if (segment.compactions() > 0) ++totals_.compacted_replicas;
    return log::image_of(segment);
  }
  void crash() {
    ++totals_.crashes;
    const auto replicas = images();
    log::Replay choice(log::kTestCluster, log::kTestMaster);
    for (size_t i = 0; i < replicas.size(); ++i) {
      log::ReplicaImage image;
      image.segment_id = replicas[i].first;
      image.bytes = replicas[i].second;
      image.name = std::to_string(i);
      choice.add(image);
    }
    const Status status = choice.run();
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<std::string> entries;
    for (const log::ReplicaReport& replica : choice.report().replicas) {
      if (replica.chosen) add_entries(replicas[std::stoul(replica.name)], entries);
    }
    replay(std::move(entries), parts_.log.durable(), &choice);
  }
  /// All machines lose their power at once: of heads there is what was synced, and perhaps more.
  /// The newest digest decides, as opens are synced, and each head ends at its first gap.
  void power_cut() {
    ++totals_.power_cuts;
    const LogPosition synced = parts_.log.synced();
    const log::Segment* newest = nullptr;
    for (const auto& replica : parts_.replicator.replicas()) {
      const log::Segment& head = *replica.segment;
      if (head.side() || !head.opened_durable()) continue;
      if (newest == nullptr || head.id() > newest->id()) newest = &head;
    }
    ASSERT_NE(newest, nullptr);
    const auto members = log::scan_segment(newest->identity(), newest->bytes()).digest;
    std::vector<std::string> entries;
    for (const auto& replica : parts_.replicator.replicas()) {
      const log::Segment& segment = *replica.segment;
      if (!std::ranges::binary_search(members, segment.id())) continue;
      std::string image = whole_image(replica);
      if (!segment.side() && segment.id() >= synced.segment_id()) {
        const uint32_t there = segment.id() == synced.segment_id() ? synced.offset() : 0;
        uint32_t length = std::max(segment.header_length(), there);
        if (random_.chance(0.5)) {
          length += static_cast<uint32_t>(random_.below(image.size() - length + 1));
        }
        image.resize(length);
      }
      add_entries({segment.id(), std::move(image)}, entries);
    }
    replay(std::move(entries), synced, nullptr);
  }
  /// `rebuilt`: from the same replicas; null: it was not.
  void replay(std::vector<std::string> entries, LogPosition until, const log::Replay* rebuilt) {
    log::TestLog parts(2 * kMostSegments);
    ObjectStore store(parts.log, clock_, {.buckets = 512});
    TabletReplay replay(store, 1);
    ASSERT_TRUE(replay.begin(all_of(kStays), 0).ok());
    if (owned_) ASSERT_TRUE(replay.begin(all_of(kReturns), 0).ok());
    for (size_t i = entries.size(); i > 1; --i) {
      std::swap(entries[i - 1], entries[random_.below(i)]);
    }
    for (const std::string& entry : entries) {
      const log::EntryView view(log::SegmentBytes(entry), 0, load<log::EntryHeader>(entry.data()));
      ASSERT_EQ(replay.replay(view), StatusCode::kOk);
    }
    ASSERT_TRUE(replay.serve(all_of(kStays)));
    if (owned_) ASSERT_TRUE(replay.serve(all_of(kReturns)));
    expect_all_until(store, until);
    if (rebuilt != nullptr) expect_the_same(store, *rebuilt);
    replay.side().abort();
  }
  /// What is rebuilt from the log alone is what a recovery takes by the coordinator's metadata. A
  /// table that was dropped may be there until a head that does not list it decides.
  void expect_the_same(const ObjectStore& store, const log::Replay& rebuilt) {
    uint64_t objects = 0;
    rebuilt.for_each([&](const log::ReplayedObject& object) {
      if (object.table_id == kReturns && !owned_) {
        EXPECT_LE(rebuilt.report().digest_segment, newest_at_drop_) << object.key;
        return;
      }
      ReadResult result;
      ASSERT_EQ(store.read(object.table_id, object.key, kNoRules, result), StatusCode::kOk)
          << "rebuilt: table " << object.table_id << " " << object.key;
      EXPECT_EQ(result.version, object.version);
      ++objects;
    });
    EXPECT_EQ(objects, store.object_count(kStays) + store.object_count(kReturns));
    totals_.not_owned += rebuilt.report().objects_not_owned > 0 ? 1 : 0;
  }
  /// As a recovery takes them: of a tablet, from its creation position on.
  void add_entries(const std::pair<uint64_t, std::string>& replica,
                   std::vector<std::string>& entries) {
    const auto& [id, image] = replica;
    const log::SegmentIdentity identity{log::kTestCluster, log::kTestMaster, id};
    log::scan_segment(identity, log::SegmentBytes(image), {}, [&](const log::GroupView& group) {
      for (auto e = group.first(); e; e = group.next(*e)) {
        const bool object = e->view.type() == log::EntryType::kObject;
        if (!object && e->view.type() != log::EntryType::kTombstone) continue;
        const auto table = e->view.load_at<uint64_t>(0);
        if (table == kReturns && (!owned_ || replica.first < first_segment_)) continue;
        entries.push_back(image.substr(e->offset, e->view.total_length()));
      }
    });
  }
  /// Each key must have its last state up to this position, or a later one.
  void expect_all_until(ObjectStore& store, LogPosition position) {
    uint64_t present = 0;
    for (auto& [key, outcomes] : outcomes_) {
      forget_old(outcomes);
      const auto first = last_until(outcomes, position);
      ReadResult result;
      const StatusCode status = store.read(key.first, key.second, kNoRules, result);
      const bool there = status == StatusCode::kOk;
      present += there ? 1 : 0;
      // Nothing of it may be there yet.
      bool expected = !there && first->depends_on > position;
      for (auto outcome = first; outcome != outcomes.end(); ++outcome) {
        expected = expected || (there ? is(result, *outcome) : outcome->version == 0);
      }
      EXPECT_TRUE(expected) << "table " << key.first << " " << key.second << ": "
                            << (there ? "version " + std::to_string(result.version) : "nothing")
                            << " instead of " << first->version;
    }
    EXPECT_EQ(store.object_count(kStays) + store.object_count(kReturns), present);
  }

  Random random_;
  const double crash_chance_;
  Totals& totals_;
  VirtualClock clock_;
  log::TestLog parts_;
  ObjectStore store_;
  std::vector<std::unique_ptr<Relocation>> passes_;
  uint64_t target_bytes_ = 0;
  uint64_t keys_ = 1;
  uint64_t written_ = 0;
  uint64_t full_ = 0;
  bool owned_ = true, purged_ = true;
  uint64_t first_segment_ = 0;
  uint64_t newest_at_drop_ = 0;  // the newest head when the table was dropped
  std::map<Key, std::vector<Outcome>> outcomes_;
  std::map<Key, uint64_t> highest_;
};

/// Rounds with rising seeds, until one fails.
inline void run_rounds(uint64_t first_seed, uint64_t rounds, double crash_chance, Totals& totals) {
  for (uint64_t i = 0; i < rounds && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(first_seed + i));
    Round(first_seed + i, crash_chance, totals).run();
  }
}

}  // namespace ramcloud::store::testing
