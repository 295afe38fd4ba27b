// Losses that an operator accepts (docs/design/recovery.md, "Accepted losses"): the rest is served,
// versions rise, and disks that come back afterwards change nothing.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/testing/recovery_cluster.h"

namespace ramcloud::sim {
namespace {

using Phase = RecoveryProgress::Phase;

class AcceptedLossSim : public DurabilityTest {
 protected:
  static constexpr uint32_t kKeys = 60;
  static constexpr size_t kBytes = 300'000;  // three segments or more

  /// Clusters with one replica of each segment.
  void start_with_segments(uint64_t seed) {
    start({.seed = seed, .servers = 7, .replicas = 1, .condemned_start_again = true}, 1);
    versions_.clear();
    for (uint32_t i = 0; i < kKeys; ++i) {
      write(i, "old" + std::string(kBytes, '.'));
    }
    for (uint32_t i = 0; i < kKeys; i += 10) remove("t", i, 1);
    master_ = owner("t");
  }
  void write(uint32_t i, const std::string& value) {
    const auto written = cluster().run(0, client().write(id("t"), key(i), value), 600s);
    ASSERT_TRUE(written.has_value()) << written.error().to_string();
    ASSERT_GT(*written, versions_[i]) << key(i) << ": a version was assigned twice";
    versions_[i] = *written;
  }
  /// A server that has a closed segment of the master's log, or else its head.
  size_t holder(bool of_head) {
    const uint64_t head = head_of(master_);
    const auto parts = cluster().server(place_of(master_)).parts();
    const std::vector<uint64_t> of_it = holders_of_head(master_);
    for (uint64_t segment_id = head; segment_id > 0; --segment_id) {
      if (parts.store->log().find_segment(segment_id) == nullptr) continue;
      for (const uint64_t server_id : parts.replicas->replica_servers(segment_id)) {
        const bool has_head = std::ranges::find(of_it, server_id) != of_it.end();
        if (has_head == of_head) return place_of(server_id);
      }
    }
    ADD_FAILURE() << "nobody has one";
    return 0;
  }
  bool blocked(uint64_t server_id) {
    if (cluster().coordinator() == nullptr) return false;
    const auto found = leading().state().recoveries.find(server_id);
    return found != leading().state().recoveries.end() && found->second.phase == Phase::kBlocked;
  }
  Result<LossAnswer> ask(LossRequest wanted) {
    const Time deadline = leading().reactor().now() + 20s;
    return cluster().run(0, leading().accept_loss(std::move(wanted), deadline));
  }
  /// Accepts the loss of every BLOCKED recovery, until none is BLOCKED.
  void accept_all() {
    bool all_served = false;
    ASSERT_TRUE(until(
        [&] {
          all_served = served();
          return all_served || !blocked_ones().empty();
        },
        3600s));
    while (!all_served) {
      for (const uint64_t server_id : blocked_ones()) {
        const auto shown = ask({server_id, false, "", "", ""});
        if (!shown) {
          ASSERT_EQ(shown.error().code(), StatusCode::kRetry) << shown.error().to_string();
          cluster().scheduler().run_for(1s);
          continue;
        }
        const auto done = ask({server_id, true, shown->preview.token, "", ""});
        ASSERT_TRUE(done.has_value()) << done.error().to_string();
        accepted_.insert(server_id);
      }
      ASSERT_TRUE(until(
          [&] {
            all_served = served();
            return all_served || !blocked_ones().empty();
          },
          3600s))
          << waits_for();
    }
  }
  std::vector<uint64_t> blocked_ones() {
    std::vector<uint64_t> ids;
    if (cluster().coordinator() == nullptr) return ids;
    for (const auto& [server_id, progress] : leading().state().recoveries) {
      if (progress.phase == Phase::kBlocked) ids.push_back(server_id);
    }
    return ids;
  }
  /// Checks that each remaining object has the value that was written. Returns how many remain.
  uint32_t expect_nothing_wrong() {
    uint32_t there = 0;
    for (uint32_t i = 0; i < kKeys; ++i) {
      const auto found = cluster().run(0, client().read(id("t"), key(i)), 600s);
      if (!found) EXPECT_EQ(found.error().code(), StatusCode::kNotFound);
      if (!found) continue;
      EXPECT_EQ(found->value.substr(0, 4), "old.");
      EXPECT_LE(found->version, versions_[i]);
      ++there;
    }
    return there;
  }
  void expect_all_new() {
    for (uint32_t i = 0; i < kKeys; ++i) {
      const auto found = cluster().run(0, client().read(id("t"), key(i)), 600s);
      ASSERT_TRUE(found.has_value()) << key(i) << ": " << found.error().to_string();
      ASSERT_EQ(found->value, "new") << key(i);
      ASSERT_EQ(found->version, versions_[i]);
    }
  }

  uint64_t master_ = 0;
  std::map<uint32_t, uint64_t> versions_;  // the highest acknowledged version of each key
  std::set<uint64_t> accepted_;
};
INSTANTIATE_TEST_SUITE_P(Durability, AcceptedLossSim, durabilities(), durability);

TEST_P(AcceptedLossSim, TheRestIsServedAndNothingComesBack) {
  uint32_t found = 0, lost = 0;
  for (const uint64_t seed : seeds(6)) {
    SCOPED_TRACE(seed);
    start_with_segments(seed);
    const size_t place = place_of(master_), gone = holder(/*of_head=*/seed % 2 == 0);
    kill(master_);
    cluster().kill_server(gone);
    ASSERT_TRUE(until([&] { return blocked(master_); }, 3600s)) << waits_for();
    EXPECT_FALSE(served());
    ASSERT_NO_FATAL_FAILURE(accept_all());
    EXPECT_TRUE(accepted_.contains(master_));
    if (seed % 3 == 0) {  // the next leader knows the accepted loss
      cluster().kill_coordinator();
      cluster().restart_coordinator();
      ASSERT_TRUE(until_served());
      EXPECT_TRUE(leading().state().accepted_losses.contains(master_));
    }
    const uint32_t there = expect_nothing_wrong();
    found += there;
    lost += kKeys - there;
    for (uint32_t i = 0; i < kKeys; ++i) ASSERT_NO_FATAL_FAILURE(write(i, "new"));
    // Now their disks come back, and another server dies.
    cluster().restart_server(gone);
    cluster().restart_server(place);
    cluster().scheduler().run_for(120s);
    ASSERT_TRUE(until_served());
    expect_all_new();
    kill(owner("t"));
    ASSERT_TRUE(until_served());
    expect_all_new();
    expect_sound();
  }
  if (seeds(6).size() < 6) return;
  EXPECT_GT(found, 0u);
  EXPECT_GT(lost, 0u);
}

/// The device of a server that stays up fails, and nobody else has a segment of the master.
TEST_P(AcceptedLossSim, ADeviceThatFailsIsWaitedForAndThenAccepted) {
  for (const uint64_t seed : seeds(2)) {
    SCOPED_TRACE(seed);
    start_with_segments(seed);
    const size_t failed = holder(/*of_head=*/seed % 2 == 0);
    kill(master_);
    cluster().disk(failed).fail_with({StatusCode::kIoError, "input/output error"});
    const Time began = cluster().scheduler().now();
    ASSERT_TRUE(until([&] { return blocked(master_); }, 3600s)) << waits_for();
    EXPECT_GE(cluster().scheduler().now() - began, 10min) << "it was not waited for";
    EXPECT_TRUE(cluster().server_runs(failed));
    EXPECT_EQ(verdicts(), 1u);
    EXPECT_FALSE(served());
    ASSERT_NO_FATAL_FAILURE(accept_all());
    EXPECT_TRUE(accepted_.contains(master_));
    expect_nothing_wrong();
    for (uint32_t i = 0; i < kKeys; ++i) ASSERT_NO_FATAL_FAILURE(write(i, "new"));
    expect_all_new();
    expect_sound();
  }
}

/// The disk comes back after the loss was accepted and before recovery was ordered: then it is
/// used.
TEST_P(AcceptedLossSim, ADiskThatIsBackInTimeIsUsed) {
  start_with_segments(1);
  const size_t gone = holder(/*of_head=*/false);
  kill(master_);
  cluster().kill_server(gone);
  ASSERT_TRUE(until([&] { return blocked(master_); }, 3600s)) << waits_for();
  cluster().restart_server(gone);
  ASSERT_TRUE(until_served());
  EXPECT_EQ(expect_nothing_wrong(), kKeys - kKeys / 10);
  expect_sound();
}

}  // namespace
}  // namespace ramcloud::sim
