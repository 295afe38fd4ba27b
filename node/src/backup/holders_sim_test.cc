// Masters tell the holders of a segment to each of them, before anything counts on it.
#include <gmock/gmock.h>

#include "backup/testing/replication_rig.h"
#include "base/testing/sanitizer.h"

namespace ramcloud {
namespace {

using testing::kMaster;

class HoldersSim : public ::testing::TestWithParam<uint32_t>, protected testing::ReplicationRig {
 protected:
  explicit HoldersSim(uint64_t seed = 11) : ReplicationRig(seed) {}
  const wire::Holders* told(uint64_t server_id, uint64_t segment_id) {
    const auto& backup = backups_[server_id - 1];
    if (!backup) return nullptr;
    const auto replica = backup->service->find(kMaster, segment_id);
    if (!replica) return nullptr;
    return &(last_ = replica->holders);
  }
  /// Checks that the durable bytes of the segment at the durable position depend only on replicas
  /// whose frames name each other. Returns the error, or an empty text.
  std::string check() {
    const uint64_t segment = log_->durable().segment_id();
    if (log_->durable() == checked_ || segment == 0) return {};
    checked_ = log_->durable();
    const log::Segment* there = log_->find_segment(segment);
    if (there == nullptr || there->closed()) return {};
    if (log_->durable().offset() <= there->header_length()) return {};
    const auto counting = manager_->replica_servers(segment);
    for (const uint64_t server : counting) {
      const wire::Holders* names = told(server, segment);
      for (const uint64_t other : counting) {
        if (names == nullptr || std::ranges::find(names->all(), other) != names->all().end()) {
          continue;
        }
        return "segment " + std::to_string(segment) + ": server " + std::to_string(server) +
               " does not know of " + std::to_string(other);
      }
    }
    return {};
  }
  std::string put_and_check(const std::string& key, const std::string& value) {
    std::string wrong;
    (void)scheduler_.run_until([&] { return put(key, value) == StatusCode::kOk; }, 60s);
    (void)scheduler_.run_until(
        [&] {
          wrong = check();
          return !wrong.empty() || log_->durable() >= log_->head();
        },
        60s);
    return wrong;
  }

  wire::Holders last_;
  log::LogPosition checked_;
};
INSTANTIATE_TEST_SUITE_P(Reactors, HoldersSim, ::testing::Values(1u, 3u));

TEST_P(HoldersSim, EachFrameNamesThemAll) {
  reactors_ = GetParam();
  start(4, 3);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  const auto holders = manager_->replica_servers(1);
  ASSERT_EQ(holders.size(), 3u);
  for (const uint64_t server : holders) {
    ASSERT_NE(told(server, 1), nullptr);
    EXPECT_THAT(told(server, 1)->all(), ::testing::ElementsAreArray(holders)) << server;
  }
}

/// Two of three at a time, with memory for no other head, so that segments get replicas back while
/// they take data.
TEST_P(HoldersSim, NothingCountsOnAReplicaThatOthersDoNotKnow) {
  reactors_ = GetParam();
  start(4, 3);
  const std::string value(50'000, 'v');
  int puts = 0;
  for (uint32_t lost = 0; lost < 3; ++lost) {
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(put_and_check("k" + std::to_string(++puts), value), "");
    }
    crash_backup(lost);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(put_and_check("k" + std::to_string(++puts), value), "");
    }
    add_backup(64 << 20);
  }
}

/// Degraded: it knows of two, and of the third before that counts.
TEST_P(HoldersSim, ADegradedSegmentTellsTheReplicaThatItGetsBack) {
  reactors_ = GetParam();
  start(2, 3);
  ASSERT_EQ(put_and_check("a", "1"), "");
  const auto two = manager_->replica_servers(1);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_THAT(told(two[0], 1)->all(), ::testing::UnorderedElementsAreArray(two));
  add_backup(64 << 20);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(put_and_check("k" + std::to_string(i), "v"), "");
    scheduler_.run_for(20ms);
  }
  const auto three = manager_->replica_servers(1);
  ASSERT_EQ(three.size(), 3u);
  for (const uint64_t server : three) {
    EXPECT_THAT(told(server, 1)->all(), ::testing::UnorderedElementsAreArray(three)) << server;
  }
}

}  // namespace
}  // namespace ramcloud
