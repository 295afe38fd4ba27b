// Single cases of a pass of combined cleaning; cleaning_test.cc has the random ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "log/group_reader.h"
#include "log/log_test_support.h"
#include "log/replay.h"
#include "store/cleaning_pass.h"
#include "store/invariants.h"
#include "store/tablet_replay.h"

namespace ramcloud::store {
namespace {

using Progress = log::CleaningWork::Progress;
constexpr wire::RejectRules kNoRules{};

struct Bench {
  Bench() : parts(8, false, 1, true, 1), store(parts.log, clock, {.buckets = 512}) {
    parts.replicator.finish_all();
    EXPECT_TRUE(store.take_tablet(1, 0, ~uint64_t{0}).ok());
  }
  void write(const std::string& key, const std::string& value) {
    uint64_t version = 0;
    log::LogPosition depends;
    ASSERT_EQ(store.write(1, key, value, kNoRules, version, depends), StatusCode::kOk);
  }
  void roll() {
    ASSERT_EQ(parts.log.roll_head(), StatusCode::kOk);
    parts.replicator.finish_all();
  }
  VirtualClock clock;
  log::TestLog parts;
  ObjectStore store;
};

/// What a replay of exactly the durable bytes finds of the key: its value, or "-".
std::string after_crash(Bench& b, const std::string& key) {
  std::vector<std::pair<uint64_t, std::string>> images;
  for (const auto& replica : b.parts.replicator.replicas()) {
    const log::Segment& s = *replica.segment;
    if (!s.opened_durable()) continue;
    images.emplace_back(s.id(), log::image_of(s, replica.durable));
  }
  log::Replay choice(log::kTestCluster, log::kTestMaster);
  for (size_t i = 0; i < images.size(); ++i) {
    log::ReplicaImage image;
    image.segment_id = images[i].first;
    image.bytes = images[i].second;
    image.name = std::to_string(i);
    choice.add(image);
  }
  const Status status = choice.run();
  if (!status.ok()) return "replay: " + std::string(status.message());
  log::TestLog parts(8);
  ObjectStore store(parts.log, b.clock, {.buckets = 512});
  TabletReplay replay(store, 1);
  EXPECT_TRUE(replay.begin({1, 0, ~uint64_t{0}}, 0).ok());
  std::vector<std::string> entries;
  for (const auto& r : choice.report().replicas) {
    if (!r.chosen) continue;
    const std::string& image = images[std::stoul(r.name)].second;
    const log::SegmentIdentity identity{log::kTestCluster, log::kTestMaster, r.segment_id};
    log::scan_segment(identity, log::SegmentBytes(image), {}, [&](const log::GroupView& group) {
      for (auto e = group.first(); e; e = group.next(*e)) {
        if (e->view.type() != log::EntryType::kObject &&
            e->view.type() != log::EntryType::kTombstone)
          continue;
        entries.push_back(image.substr(e->offset, e->view.total_length()));
      }
    });
  }
  for (const std::string& entry : entries) {
    const log::EntryView view(log::SegmentBytes(entry), 0, load<log::EntryHeader>(entry.data()));
    EXPECT_EQ(replay.replay(view), StatusCode::kOk);
  }
  EXPECT_TRUE(replay.serve({1, 0, ~uint64_t{0}}));
  ReadResult result;
  std::string value = "-";
  if (store.read(1, key, kNoRules, result) == StatusCode::kOk) {
    value.resize(result.value_length);
    result.entry.read(result.value_offset, value.data(), result.value_length);
  }
  replay.side().abort();
  return value;
}

/// The pass sees that the object was replaced, and no replica has that yet.
TEST(CleaningPass, AnOverwriteThatIsNotDurableLosesNothing) {
  Bench b;
  b.write("key", "acknowledged");
  b.roll();
  log::Segment* victim = b.parts.log.segments().front();
  ASSERT_TRUE(may_clean(b.store, *victim));
  b.write("key", "in memory only");  // nobody was told
  CleaningPass pass(b.store, {victim});
  pass.commit_now();
  for (int i = 0; i < 1000; ++i) {
    if (pass.step() == Progress::kWaits) break;
  }
  EXPECT_EQ(after_crash(b, "key"), "acknowledged") << "before the next head is open";
  // Only opens are answered; the head's bytes are late.
  std::vector<uint64_t> ids;
  for (const auto& r : b.parts.replicator.replicas()) {
    if (!r.segment->opened_durable()) ids.push_back(r.segment->id());
  }
  for (const uint64_t id : ids) b.parts.replicator.finish_open(id);
  for (int i = 0; i < 10; ++i) (void)pass.step();
  EXPECT_EQ(after_crash(b, "key"), "acknowledged")
      << "the next head is open, the present one is late";
  b.parts.replicator.finish_all();
  for (int i = 0; i < 1000 && pass.step() != Progress::kDone; ++i) b.parts.replicator.finish_all();
}

}  // namespace
}  // namespace ramcloud::store
