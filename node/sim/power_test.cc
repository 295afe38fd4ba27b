// Power cuts of whole clusters (docs/design/recovery.md, "Where a log ends"), with both
// durabilities: what was acknowledged a moment before may be missing with `buffered`, and nothing
// with `synced`.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "sim/testing/recovery_cluster.h"

namespace ramcloud::sim {
namespace {

using Phase = RecoveryProgress::Phase;

/// The flush interval, one sync, and the replies that wait for it.
constexpr Duration kLastFlush = 10ms + 10ms;

class PowerCutSim : public DurabilityTest {
 protected:
  /// Runs until everything is served. False: something is not served in time, or was BLOCKED
  /// meanwhile.
  bool served_and_never_blocked() {
    bool blocked = false;
    uint32_t asked = 0;
    const bool served_in_the_end = until([&] {
      blocked = blocked || phase() == Phase::kBlocked;
      return ++asked % 64 == 0 && (blocked || served());
    });
    return served_in_the_end && !blocked;
  }
  /// Starts writers that overwrite a key each, again and again.
  void begin_overwriters(const std::string& name, uint32_t count) {
    overwriting_ = std::make_shared<Overwriting>();
    for (uint32_t i = 0; i < count; ++i) {
      cluster().spawn(0, overwrite(client(), id(name), fmt::format("o{}", i), overwriting_));
    }
  }
  /// Stops them. Returns the highest version of each key that was acknowledged.
  std::map<std::string, uint64_t> stop_overwriters() {
    overwriting_->stop = true;
    return overwriting_->versions;
  }
  /// Checks that no version is assigned twice.
  void expect_rising(const std::map<std::string, uint64_t>& versions) {
    for (const auto& [key, version] : versions) {
      const auto written = cluster().run(1, cluster().client(1).write(id("t"), key, "again"));
      ASSERT_TRUE(written.has_value()) << written.error().to_string();
      EXPECT_GT(*written, version) << key;
    }
  }
  /// Checks that writes acknowledged at least this long before the power cut are there. Returns
  /// their number.
  uint32_t expect_acknowledged(const std::map<std::string, Time>& acknowledged, Time off) {
    const Duration may_miss = synced() ? Duration{} : kLastFlush;
    uint32_t checked = 0;
    for (const auto& [key, when] : acknowledged) {
      if (when + may_miss > off) continue;
      ++checked;
      const auto found = cluster().run(1, cluster().client(1).read(id("t"), key));
      EXPECT_TRUE(found.has_value())
          << key << ", " << (off - when) / 1us << " us before: " << found.error().to_string();
    }
    return checked;
  }

 private:
  struct Overwriting {
    bool stop = false;
    std::map<std::string, uint64_t> versions;
  };
  static Task<void> overwrite(ClientCore& client, uint64_t table_id, std::string key,
                              std::shared_ptr<Overwriting> overwriting) {
    while (!overwriting->stop) {
      const auto written = co_await client.write(table_id, key, "value");
      if (written && !overwriting->stop) overwriting->versions[key] = *written;
    }
  }

  std::shared_ptr<Overwriting> overwriting_;
};
INSTANTIATE_TEST_SUITE_P(Durability, PowerCutSim, durabilities(), durability);

/// All hosts lose the power at the same time while heads roll, every 50 ms or sooner.
TEST_P(PowerCutSim, OfAllWhileHeadsRollTakesOnlyTheLastFlush) {
  for (const uint64_t seed : seeds(2)) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const uint32_t replicas = 1 + static_cast<uint32_t>(random.below(3));
    const uint32_t span = 1 + static_cast<uint32_t>(random.below(2));
    // Who recovers all of a dead server's log must have room for writes as well.
    start({.seed = seed, .servers = 4, .replicas = replicas, .log_bytes = 128u << 20}, span);
    begin_overwriters("t", 4 * span);
    // So many for each tablet fill a segment in 50 ms, however small their values are.
    begin_writers("t", 4 * span, 250'000 + static_cast<uint32_t>(random.below(200'000)));
    const uint64_t master = owner("t");
    const uint64_t first = head_of(master);
    const Time began = cluster().scheduler().now();
    ASSERT_TRUE(until([&] { return head_of(master) >= first + 2; }));
    ASSERT_LE(cluster().scheduler().now() - began, 2 * 50ms) << "heads do not roll so often";
    cluster().scheduler().run_for(20ms + std::chrono::microseconds(random.below(50'000)));
    const Time off = cluster().scheduler().now();
    const auto acknowledged = stop_writers();
    const auto versions = stop_overwriters();
    reboot_all();
    ASSERT_TRUE(served_and_never_blocked()) << waits_for();
    EXPECT_GT(expect_acknowledged(acknowledged, off), 5u);
    EXPECT_EQ(versions.size(), 4 * span);
    expect_rising(versions);
    expect_sound();
  }
}

/// Before a recovered tablet is served, everything that its owner needs is on devices.
TEST_P(PowerCutSim, RightAfterARecoveryTakesNothingThatWasRecovered) {
  for (const uint64_t seed : seeds(2)) {
    SCOPED_TRACE(seed);
    Random random(seed);
    start({.seed = seed, .servers = 4}, 2);
    fill("t", 0, 40, 10'000);
    remove("t", 0, 10);
    cluster().scheduler().run_for(100ms);
    kill(owner("t"));
    ASSERT_TRUE(until_served());
    cluster().scheduler().run_for(std::chrono::microseconds(random.below(500'001)));
    reboot_all();
    ASSERT_TRUE(served_and_never_blocked()) << waits_for();
    expect_filled("t", 10, 30);
    expect_absent("t", 0, 10);
    expect_sound();
  }
}

/// The fourth host kept its power, and with it the tail. It returns late; nothing is given up
/// meanwhile.
TEST_P(PowerCutSim, OfThreeHostsOfFourTheLateOneHasTheTail) {
  for (const uint64_t seed : seeds(2)) {
    SCOPED_TRACE(seed);
    Random random(seed);
    start({.seed = seed, .servers = 4, .replicas = 2}, 1);
    // So little that the head does not roll. The head before it may be on other hosts only, and
    // after a gap there nothing of this one counts.
    begin_writers("t", 3, 1'000 + static_cast<uint32_t>(random.below(6'000)));
    cluster().scheduler().run_for(5ms + std::chrono::microseconds(random.below(20'000)));
    // Soon after the start the first head may not be open on its holders yet.
    ASSERT_TRUE(until(
        [&] { return acknowledged_writes() > 5 && holders_of_head(owner("t")).size() == 2; }));
    ASSERT_EQ(head_of(owner("t")), 1u) << "the head rolls";
    const auto holders = holders_of_head(owner("t"));
    const size_t late = place_of(holders[random.below(2)]);
    const auto acknowledged = stop_writers();
    cluster().kill_server(late);
    for (size_t i = 0; i < 4; ++i) {
      if (i != late) cluster().reboot_server(i);
    }
    for (size_t i = 0; i < 4; ++i) {
      if (i != late) cluster().restart_server(i);
    }
    cluster().scheduler().run_for(20s + std::chrono::milliseconds(random.below(20'000)));
    // A synced replica lacks nothing, unless the power cut left a part of a write behind its end.
    if (!synced()) EXPECT_FALSE(served()) << "the tail was given up";
    cluster().restart_server(late);
    ASSERT_TRUE(served_and_never_blocked()) << waits_for();
    EXPECT_GT(acknowledged.size(), 5u);
    for (const auto& [key, when] : acknowledged) {
      const auto found = cluster().run(1, cluster().client(1).read(id("t"), key));
      EXPECT_TRUE(found.has_value()) << key << ": " << found.error().to_string();
    }
    expect_sound();
  }
}

/// The only holder of a head loses its power just after the close, so its disk may lack the close.
/// The master copies the segment and writes on. Then it dies with the others that have its log. For
/// twenty minutes the replica that lost the close is all there is: it is not the end of the log.
TEST_P(PowerCutSim, OfAHolderAfterTheCloseGivesUpNothingThatFollowed) {
  uint32_t tried = 0;
  for (const uint64_t seed : seeds(6)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 6, .replicas = 1}, 1);
    const uint64_t master = owner("t");
    const auto parts = cluster().server(place_of(master)).parts();
    const auto holder_of = [&](uint64_t segment_id) {
      const std::vector<uint64_t> ids = parts.replicas->replica_servers(segment_id);
      return ids.empty() ? 0 : ids[0];
    };
    uint32_t written = 0;
    const uint64_t first = head_of(master);
    while (head_of(master) == first) fill("t", written++, 1, 100'000);
    const uint64_t off = holder_of(first), next = holder_of(head_of(master));
    const size_t place = place_of(off);
    if (next == off) continue;
    ++tried;
    cluster().reboot_server(place);
    ASSERT_TRUE(until([&] { return holder_of(first) != off && holder_of(first) != 0; }));
    fill("t", written, 3, 100'000);
    written += 3;
    const std::set<size_t> others = {place_of(master), place_of(holder_of(first)), place_of(next)};
    for (const size_t other : others) cluster().kill_server(other);
    cluster().restart_server(place);
    cluster().scheduler().run_for(1200s);
    EXPECT_FALSE(served());
    EXPECT_EQ(owner("t"), master) << "its tail was given up";
    for (const size_t other : others) cluster().restart_server(other);
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("t", 0, written);
    expect_sound();
  }
  if (seeds(6).size() >= 6) EXPECT_GT(tried, 2u);
}

}  // namespace
}  // namespace ramcloud::sim
