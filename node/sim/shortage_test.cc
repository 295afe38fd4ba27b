// Recoveries of clusters that lack something (docs/design/recovery.md): a sound replica, memory,
// frames, backups, or the last holder.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "backup/frame_format.h"
#include "backup/frame_store.h"
#include "base/hash.h"
#include "base/random.h"
#include "sim/testing/recovery_cluster.h"

namespace ramcloud::sim {
namespace {

/// The invariant check of replicas is off, because this test damages a device.
constexpr uint32_t kNoLooks = ~uint32_t{0};

class ShortageSim : public DurabilityTest {
 protected:
  /// Of the tablet with this key, by the metadata.
  uint64_t owner_of_key(const std::string& name, uint32_t i) {
    const uint64_t hash = key_hash(id(name), key(i));
    for (const TabletRecord& tablet : leading().state().tables.at(id(name)).tablets) {
      if (hash >= tablet.start_hash && hash <= tablet.end_hash) return tablet.server_id;
    }
    return 0;
  }
  /// How many of the first keys of "u" it owns, by the metadata.
  uint32_t keys_of(uint64_t server_id, uint32_t count) {
    uint32_t owned = 0;
    for (uint32_t i = 0; i < count; ++i) owned += owner_of_key("u", i) == server_id ? 1 : 0;
    return owned;
  }
  /// Replicas that the master at this place has on backups.
  uint64_t replicas_of(size_t place) {
    uint64_t placed = 0;
    const auto count = [&](const ReplicaSlot& slot) { placed += slot.placed() ? 1 : 0; };
    cluster().server(place).parts().replicas->for_each_slot(0, count);
    return placed;
  }
  uint64_t sum_of_running(const std::function<uint64_t(size_t)>& of) {
    uint64_t sum = 0;
    for (size_t i = 0; i < cluster().servers(); ++i) sum += cluster().server_runs(i) ? of(i) : 0;
    return sum;
  }
  uint64_t replicas_of_all() {
    return sum_of_running([this](size_t i) { return replicas_of(i); });
  }
  /// Free or not, those that are not kept for heads.
  uint64_t frames_for_copies() {
    return sum_of_running([this](size_t i) -> uint64_t {
      const FrameStore& frames = *cluster().server(i).parts().frames;
      return frames.frames_total() - frames.head_reserve();
    });
  }
  uint64_t frames_used() {
    return sum_of_running(
        [this](size_t i) -> uint64_t { return cluster().server(i).parts().frames->frames_used(); });
  }
};
INSTANTIATE_TEST_SUITE_P(Durability, ShortageSim, durabilities(), durability);

/// With four servers and R = 3, each other server has a replica of every segment. One of them has a
/// flipped bit in a few sectors, or in each.
TEST_P(ShortageSim, OfSoundReplicasTheOthersAreTaken) {
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    Random random(seed);
    start({.seed = seed, .servers = 4, .replicas = 3, .steps_between_looks = kNoLooks}, 1);
    fill("t", 0, 90, 200'000);
    remove("t", 0, 10);
    const uint64_t master = owner("t");
    ASSERT_GE(head_of(master), 2u) << "some of the segments are closed";
    const size_t place = place_of(master);
    const size_t damaged = (place + 1 + random.below(3)) % 4;
    kill(master);
    const uint32_t sectors = seed % 2 == 0 ? ~uint32_t{0} : 50;
    ASSERT_GE(cluster().disk(damaged).damage(sectors, kSuperblockBytes), 50u);
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("t", 10, 80);
    expect_absent("t", 0, 10);
    EXPECT_EQ(cluster().failures(), "");
  }
}

/// One of three servers has more than the others have room for, and dies: they serve a part of it. A server
/// that joins has room for the rest.
TEST_P(ShortageSim, OfMemoryWhatFitsIsServedAndTheRestWhenAServerJoins) {
  constexpr uint32_t kOfEach = 210, kOfOne = 38, kBytes = 400'000;
  for (const uint64_t seed : seeds(1)) {
    SCOPED_TRACE(seed);
    start({.seed = seed,
           .servers = 3,
           .replicas = 1,
           .log_bytes = 64u << 20,
           .volume = 3,
           .steps_between_looks = kNoLooks},
          3);
    create("u", 1);
    fill("t", 0, kOfEach, kBytes);
    fill("u", 0, kOfOne, kBytes);
    const uint64_t master = owner("u");
    const size_t place = place_of(master);
    kill(master);
    cluster().scheduler().run_for(300s);
    ASSERT_FALSE(served()) << "there was room for all of it";
    EXPECT_TRUE(until([&] { return waits_for().find("OUT_OF_MEMORY") != std::string::npos; }));
    uint32_t served_of_it = 0;
    for (uint32_t i = 0; i < kOfOne; ++i) {
      if (owner_of_key("u", i) == master) continue;
      expect_filled("u", i, 1);
      ++served_of_it;
    }
    EXPECT_GT(served_of_it, 0u) << "what fits waits for what does not";
    EXPECT_EQ(verdicts(), 1u);
    cluster().restart_server(place);
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("t", 0, kOfEach);
    expect_filled("u", 0, kOfOne);
    expect_sound();
  }
}

/// Three servers with R = 1 whose volumes have few free frames. One of them dies. What the others find
/// frames for is served, and the rest when a server with an empty volume joins. The volumes that are
/// left have room for the three logs and a part of what is recovered. The dead server's part of "u" is
/// estimated as much smaller than it is, because the server also has all of "t", which is empty.
TEST_P(ShortageSim, OfFramesWhatFitsIsServedAndTheRestWhenAServerJoins) {
  constexpr uint32_t kObjects = 400, kBytes = 400'000;
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed,
           .servers = 4,
           .replicas = 1,
           .log_bytes = 128u << 20,
           .volume = 1,
           .steps_between_looks = kNoLooks},
          1);
    const size_t spare = 3;
    cluster().kill_server(spare);
    ASSERT_TRUE(until_served());
    create("u", 3);
    fill("u", 0, kObjects, kBytes);
    const uint64_t master = owner("t");
    const uint64_t of_master = replicas_of(place_of(master));
    const uint64_t of_logs = replicas_of_all();
    const uint32_t lost = keys_of(master, kObjects);
    kill(master);
    ASSERT_LT(of_logs + 1, frames_for_copies()) << "nothing fits";
    ASSERT_GT(of_logs + of_master, frames_for_copies() + 1) << "everything fits";
    const auto says_so = [&] { return waits_for().find("no free frames") != std::string::npos; };
    EXPECT_TRUE(until(says_so, 120s)) << waits_for();
    cluster().scheduler().run_for(120s);
    ASSERT_FALSE(served()) << "there were frames for all of it";
    EXPECT_TRUE(until(says_so, 30s)) << waits_for();
    EXPECT_LT(keys_of(master, kObjects), lost) << "what fits waits for what does not";
    EXPECT_TRUE(until([&] { return frames_used() == replicas_of_all() + of_master; }, 30s))
        << "attempts that failed keep frames: " << frames_used() << " are used, by "
        << replicas_of_all() << " replicas of the others and " << of_master << " of the dead";
    cluster().restart_server(spare);
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("u", 0, kObjects);
    expect_sound();
  }
}

/// Three servers with R = 1 are restarted together. Their volumes have free frames for the data of any one
/// of them, and not of all: the frames of a log are free when all of it is served elsewhere. So one
/// recovery must end before the others take the frames that it needs.
TEST_P(ShortageSim, OfFramesServersThatDiedTogetherAreServedOneAfterTheOther) {
  constexpr uint32_t kObjects = 420, kBytes = 400'000;
  constexpr uint64_t kHeads = 6;  // of the new servers
  for (const uint64_t seed : seeds(2)) {
    SCOPED_TRACE(seed);
    start({.seed = seed,
           .servers = 3,
           .replicas = 1,
           .log_bytes = 128u << 20,
           .volume = 1,
           .steps_between_looks = kNoLooks},
          1);
    create("u", 3);
    fill("u", 0, kObjects, kBytes);
    std::vector<uint64_t> of_logs;
    for (size_t i = 0; i < 3; ++i) of_logs.push_back(replicas_of(i));
    const auto [least, most] = std::ranges::minmax(of_logs);
    const uint64_t used = replicas_of_all() + kHeads, frames = frames_for_copies();
    ASSERT_LT(used + most + 1, frames) << "no log fits";
    ASSERT_GT(used + 2 * least, frames) << "two logs fit";
    kill_all();
    for (size_t i = 0; i < 3; ++i) cluster().restart_server(i);
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("u", 0, kObjects);
    expect_sound();
  }
}

/// Two of four servers die. Each other one has one backup left, but two replicas are the least. So the
/// parts wait for another backup, and the log is not read again meanwhile.
TEST_P(ShortageSim, OfBackupsNothingIsReadAgainUntilAServerJoins) {
  for (const uint64_t seed : seeds(2)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 4, .replicas = 3}, 1);
    fill("t", 0, 40, 200'000);
    const uint64_t master = owner("t");
    const size_t place = place_of(master);
    kill(holders_of_head(master).at(0));
    // Otherwise it may be given a part, which fails.
    ASSERT_TRUE(until([&] { return verdicts() == 1; }));
    kill(master);
    const auto waits = [&] { return waits_for().find("lack replicas") != std::string::npos; };
    ASSERT_TRUE(until(waits, 60s)) << waits_for();
    const auto attempt = [&] { return leading().state().recoveries.at(master).attempt; };
    const uint64_t first = attempt();
    cluster().scheduler().run_for(150s);
    EXPECT_TRUE(waits()) << waits_for();
    EXPECT_EQ(attempt(), first);
    cluster().restart_server(place);
    ASSERT_TRUE(until([&] {
      const auto& all = leading().state().recoveries;
      if (all.contains(master)) EXPECT_EQ(attempt(), first);
      return served();
    })) << waits_for();
    expect_filled("t", 0, 40);
    expect_sound();
  }
}

/// Two servers, R = 1: when the backup is lost, no other server can hold a replica, and the
/// coordinator leases.
TEST_P(ShortageSim, OfHoldersTheCoordinatorLeases) {
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 2, .replicas = 1}, 1);
    fill("t", 0, 20, 100);
    const uint64_t master = owner("t");
    const size_t place = place_of(master);
    kill(holders_of_head(master).at(0));
    cluster().scheduler().run_for(10s);
    EXPECT_EQ(verdicts(), 1u);
    for (uint32_t round = 0; round < 5; ++round) {
      const Time asked = cluster().scheduler().now();
      expect_filled("t", round, 1);
      EXPECT_LE(cluster().scheduler().now() - asked, 500ms) << "reads wait";
      cluster().scheduler().run_for(2s);
    }
    for (SimNode* node : cluster().nodes_of_server(place)) {
      cluster().network().partition(cluster().coordinator_sim_node(0), *node);
    }
    cluster().scheduler().run_for(2s);
    const Time asked = cluster().scheduler().now();
    cluster().scheduler().after(1s, [&] { cluster().network().heal_all(); });
    expect_filled("t", 0, 1);
    EXPECT_GE(cluster().scheduler().now() - asked, 1s) << "it was read without anybody's lease";
    expect_filled("t", 0, 20);
    expect_sound();
  }
}

}  // namespace
}  // namespace ramcloud::sim
