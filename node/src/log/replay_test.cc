#include "log/replay.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>

#include "log/log_test_support.h"

namespace ramcloud::log {
namespace {

/// Three segments: two closed, the third open with data. Key "a" is overwritten, "b" deleted.
std::vector<std::string> three_segments() {
  TestLog t(5);
  Appended appended;
  const char* refs[2];
  EXPECT_EQ(append_object(t.log, 1, 1, "a", "old"), StatusCode::kOk);
  EXPECT_EQ(append_object(t.log, 1, 2, "b", "gone"), StatusCode::kOk);
  EXPECT_EQ(t.log.roll_head(), StatusCode::kOk);
  const TestObject newer(1, 3, "a", "new");
  const TestTombstone older(1, 1, 1, "a", false);
  const EntrySource overwrite[] = {newer.source, older.source};
  EXPECT_EQ(t.log.append(overwrite, false, appended, refs), StatusCode::kOk);
  EXPECT_EQ(t.log.roll_head(), StatusCode::kOk);
  const TestTombstone deleted(1, 2, 1, "b", true);
  EXPECT_EQ(t.log.append(std::span(&deleted.source, 1), true, appended, refs), StatusCode::kOk);
  EXPECT_EQ(append_object(t.log, 1, 4, "c", "last"), StatusCode::kOk);
  std::vector<std::string> images;
  for (const Segment* segment : t.log.segments()) images.push_back(image_of(*segment));
  return images;
}

using Map = std::map<std::string, std::string>;
const Map kExpected{{"a", "new"}, {"c", "last"}};

struct Outcome {
  explicit Outcome(const std::vector<std::pair<uint64_t, std::string>>& replicas)
      : replay(kTestCluster, kTestMaster) {
    for (const auto& [id, bytes] : replicas) replay.add({id, bytes, {}, "replica"});
    status = replay.run();
    replay.for_each([&](const ReplayedObject& o) { map[std::string(o.key)] = o.value; });
  }
  Replay replay;
  Status status;
  Map map;
};

TEST(Replay, AnyOrderOfSegments) {
  const auto s = three_segments();
  std::vector<int> order{1, 2, 3};
  do {
    std::vector<std::pair<uint64_t, std::string>> replicas;
    for (const int id : order) replicas.emplace_back(id, s[static_cast<size_t>(id) - 1]);
    const Outcome run(replicas);
    EXPECT_EQ(run.status.to_string(), "OK");
    EXPECT_EQ(run.map, kExpected);
    EXPECT_EQ(run.replay.report().digest_segment, 3u);
    EXPECT_EQ(run.replay.report().safe_version, 5u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Replay, AnotherReplicaIsTakenForOneThatIsShortTornOrCorrupt) {
  const auto s = three_segments();
  for (size_t victim = 0; victim < 3; ++victim) {
    std::string flipped = s[victim];
    flipped[120] = static_cast<char>(flipped[120] ^ 4);
    const std::string bad[] = {s[victim].substr(0, s[victim].size() - 40),
                               s[victim].substr(0, s[victim].size() - 5), flipped, ""};
    for (const std::string& damaged : bad) {
      for (const bool bad_first : {false, true}) {
        std::vector<std::pair<uint64_t, std::string>> replicas;
        for (size_t i = 0; i < 3; ++i) {
          if (i == victim && bad_first) replicas.emplace_back(i + 1, damaged);
          replicas.emplace_back(i + 1, s[i]);
          if (i == victim && !bad_first) replicas.emplace_back(i + 1, damaged);
        }
        const Outcome run(replicas);
        EXPECT_EQ(run.status.to_string(), "OK") << victim;
        EXPECT_EQ(run.map, kExpected);
      }
      if (victim == 2) continue;
      std::vector<std::pair<uint64_t, std::string>> only_bad;
      for (size_t i = 0; i < 3; ++i) only_bad.emplace_back(i + 1, i == victim ? damaged : s[i]);
      const Outcome run(only_bad);
      EXPECT_EQ(run.status.code(), StatusCode::kCorrupt) << run.status.to_string();
      EXPECT_TRUE(run.map.empty());
    }
  }
}

TEST(Replay, AnIncompleteLogIsRefused) {
  const auto s = three_segments();
  const Outcome missing({{1, s[0]}, {3, s[2]}});
  EXPECT_EQ(missing.status.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.replay.report().missing, std::vector<uint64_t>{2});
  const Outcome no_head({{1, s[0]}, {2, s[1]}});
  EXPECT_EQ(no_head.status.code(), StatusCode::kNotFound);
  EXPECT_EQ(Outcome({}).status.code(), StatusCode::kNotFound);
}

/// A replica of an open segment that was lost, and came back without acknowledged bytes.
TEST(Replay, AnOpenReplicaOfAnEpochThatIsOverDoesNotCount) {
  const auto s = three_segments();
  const auto run = [&](std::vector<std::pair<int, uint32_t>> replicas,
                       std::optional<ReplicationFence> fence) {
    auto replay = std::make_unique<Replay>(kTestCluster, kTestMaster);
    if (fence) replay->set_fence(*fence);
    for (const auto& [id, epoch] : replicas) {
      const auto segment = static_cast<uint64_t>(id);
      replay->add({segment, s[segment - 1], {}, "replica", epoch});
    }
    const Status status = replay->run();
    return std::pair(status.code(), std::move(replay));
  };
  // Without the coordinator's fence, the highest epoch of the segment's replicas holds.
  auto [code, replay] = run({{1, 0}, {2, 0}, {3, 1}, {3, 2}}, std::nullopt);
  EXPECT_EQ(code, StatusCode::kOk);
  EXPECT_TRUE(replay->report().replicas[2].stale);
  EXPECT_FALSE(replay->report().replicas[3].stale);
  EXPECT_TRUE(replay->report().replicas[3].chosen);
  // Closed ones count, whatever their epoch.
  EXPECT_EQ(run({{1, 0}, {2, 0}, {3, 2}}, ReplicationFence{3, 2}).first, StatusCode::kOk);
  // With the fence, a stale head does not count: the log is not known to be complete.
  EXPECT_EQ(run({{1, 0}, {2, 0}, {3, 1}}, ReplicationFence{3, 2}).first, StatusCode::kNotFound);
  EXPECT_EQ(run({{1, 0}, {2, 0}, {3, 2}}, ReplicationFence{4, 2}).first, StatusCode::kNotFound);
  // The fence suffices: higher epochs, which were raised on some replicas only, exclude nothing.
  EXPECT_EQ(run({{1, 0}, {2, 0}, {3, 1}, {3, 2}}, ReplicationFence{3, 1})
                .second->report()
                .replicas[2]
                .stale,
            false);
}

/// A head whose data was appended while nothing of it was durable but the first object; a copy of
/// it without the bytes of one group is what a power cut leaves of writes in flight.
struct OpenHead {
  OpenHead() {
    TestLog t(4, false);
    t.replicator.finish_open(1);
    for (uint64_t i = 0; i < 4; ++i) {
      starts.push_back(t.log.head().offset());
      EXPECT_EQ(append_object(t.log, 1, i + 1, std::string(1, static_cast<char>('a' + i)), "v"),
                StatusCode::kOk);
      if (i == 0) t.replicator.finish_data(1);
    }
    starts.push_back(t.log.head().offset());
    image = image_of(*t.log.find_segment(1));
    // Closed, while the close is on no device.
    EXPECT_EQ(t.log.roll_head(), StatusCode::kOk);
    t.replicator.finish_open(2);
    closed = image_of(*t.log.find_segment(1));
    next = image_of(*t.log.find_segment(2));
  }
  std::string without(const std::string& bytes, size_t i) const {
    std::string hole = bytes;
    std::fill(hole.begin() + starts[i], hole.begin() + starts[i + 1], '\0');
    return hole;
  }
  std::vector<uint32_t> starts;
  std::string image, closed, next;
};

TEST(Replay, AHoleAboveAllThatWasDurableEndsTheLogThere) {
  const OpenHead head;
  const Outcome run({{1, head.without(head.image, 2)}, {1, head.without(head.image, 1)}});
  EXPECT_EQ(run.status.to_string(), "OK");
  EXPECT_EQ(run.map, (Map{{"a", "v"}, {"b", "v"}})) << "the longest valid prefix";
}

TEST(Replay, AHoleBelowWhatWasDurableNeedsAnotherReplica) {
  const OpenHead head;
  EXPECT_EQ(Outcome({{1, head.without(head.image, 0)}}).status.code(), StatusCode::kCorrupt);
  const Outcome run({{1, head.without(head.image, 0)}, {1, head.without(head.image, 3)}});
  EXPECT_EQ(run.status.to_string(), "OK");
  EXPECT_EQ(run.map, (Map{{"a", "v"}, {"b", "v"}, {"c", "v"}}));
}

/// A durable-up-to mark of one replica applies to all, even if it is behind that replica's hole.
TEST(Replay, AClaimBehindAHoleBindsTheOtherReplicas) {
  const OpenHead head;
  const std::string empty = head.image.substr(0, head.starts[0]);
  const Outcome run({{1, empty}, {1, head.without(head.image, 0)}});
  EXPECT_EQ(run.status.code(), StatusCode::kCorrupt) << run.status.to_string();
  EXPECT_TRUE(run.map.empty());
}

TEST(Replay, AHeadThatWasBeingClosedMayHaveAHole) {
  const OpenHead head;
  const std::string hole = head.without(head.closed, 2);
  const Outcome run({{1, hole}, {2, head.next}});
  EXPECT_EQ(run.status.to_string(), "OK");
  EXPECT_EQ(run.map, (Map{{"a", "v"}, {"b", "v"}}));
  // The footer proves that a newer head had been opened: this one's digest does not decide.
  EXPECT_EQ(Outcome({{1, hole}}).status.code(), StatusCode::kNotFound);
}

/// Data is written to a head only after all before it were closed, whether or not the first of it
/// landed.
TEST(Replay, DataBehindAHoleOfTheNewestHeadNeedsTheOthersClosed) {
  TestLog t(4, false);
  t.replicator.finish_open(1);
  EXPECT_EQ(append_object(t.log, 1, 1, "a", "v"), StatusCode::kOk);
  const std::string open = image_of(*t.log.find_segment(1));
  EXPECT_EQ(t.log.roll_head(), StatusCode::kOk);
  t.replicator.finish_all();
  const uint32_t begin = t.log.head().offset();
  EXPECT_EQ(append_object(t.log, 1, 2, "b", "v"), StatusCode::kOk);
  const uint32_t end = t.log.head().offset();
  EXPECT_EQ(append_object(t.log, 1, 3, "c", "v"), StatusCode::kOk);
  std::string newest = image_of(*t.log.find_segment(2));
  std::fill(newest.begin() + begin, newest.begin() + end, '\0');
  EXPECT_EQ(Outcome({{1, open}, {2, newest}}).status.code(), StatusCode::kCorrupt);
  const Outcome whole({{1, image_of(*t.log.find_segment(1))}, {2, newest}});
  EXPECT_EQ(whole.status.to_string(), "OK");
  EXPECT_EQ(whole.map, (Map{{"a", "v"}}));
}

}  // namespace
}  // namespace ramcloud::log
