#include "sim/expected.h"

#include <cstdio>

#include "base/sometimes.h"

namespace ramcloud::sim {
namespace {

constexpr auto kSeeds = static_cast<uint8_t>(Run::kSeeds);
constexpr auto kRestarts = static_cast<uint8_t>(Run::kRestarts);
constexpr auto kBackups = static_cast<uint8_t>(Run::kBackups);
constexpr auto kFailover = static_cast<uint8_t>(Run::kFailover);
constexpr auto kCleaning = static_cast<uint8_t>(Run::kCleaning);
constexpr auto kRecovery = static_cast<uint8_t>(Run::kRecovery);

struct Expected {
  const char* point;
  uint8_t runs;
};

constexpr Expected kExpected[] = {
    {"backup.bytes_come_twice", kSeeds | kBackups},
    {"backup.knows_an_older_list_than_the_master", kSeeds | kRestarts | kBackups | kFailover},
    {"backup.recreation_is_made_visible", kBackups},
    {"cleaner.looks_at_all_for_dead_tombstones", kCleaning},
    {"cleaner.pass_is_over", kCleaning},
    {"client.asks_for_a_newer_map", kSeeds},
    {"client.is_sent_to_the_leader", kRestarts | kFailover},
    {"client.outcome_of_a_change_is_unknown", kSeeds | kBackups},
    {"client.outcome_of_a_multi_operation_is_unknown", kSeeds},
    {"client.outcome_of_a_table_change_is_unknown", kFailover},
    {"coordinator.change_of_unknown_outcome_was_made", kBackups},
    {"coordinator.change_of_unknown_outcome_was_not_made", kBackups},
    {"coordinator.finds_stray_chunks", kFailover},
    {"coordinator.goes_on_with_a_create", kFailover},
    {"coordinator.goes_on_with_a_drop", kFailover},
    {"coordinator.outcome_of_a_change_is_unknown", kBackups},
    {"coordinator.places_a_new_table_again", kFailover},
    {"coordinator.recovers_several_servers_at_once", kRecovery},
    {"coordinator.recovery_waits_for_holders", kRecovery},
    {"coordinator.server_is_back_before_it_was_missed", kBackups},
    {"coordinator.writes_a_table_in_steps", kFailover},
    {"log.append_waits_for_the_next_head", kBackups},
    {"log.emergency_head", kCleaning},
    {"master.change_waits_for_the_next_head", kBackups},
    {"master.multi_operation_is_sliced", kSeeds},
    {"master.read_waits_for_fresh_object", kFailover},
    {"master.reply_is_held", kSeeds | kRestarts | kBackups | kFailover},
    {"replication.another_replica_is_lost_behind_the_fence", kBackups},
    {"replication.call_is_sent_again", kSeeds | kBackups},
    {"replication.degraded_segment_gets_its_replica_back", kBackups},
    {"replication.fence_is_raised_while_the_head_rolls", kBackups},
    {"replication.head_rolls_after_a_loss", kBackups | kFailover},
    {"replication.recreation_becomes_visible", kBackups},
    {"replication.replica_of_a_side_segment_is_lost", kCleaning},
    {"replication.segment_goes_on_degraded", kBackups},
    {"server.log_begins_to_shrink", kCleaning},
    {"server.log_has_its_new_size", kCleaning},
    {"store.given_up_slot_is_cleared", kRecovery},
    {"store.replayed_copy_is_superseded", kRecovery},
    {"store.survivor_is_dead_before_it_is_seen", kCleaning},
};

}  // namespace

std::string never_reached(Run run) {
  const auto counts = sometimes_counts();
  std::string missing;
  for (const Expected& expected : kExpected) {
    if ((expected.runs & static_cast<uint8_t>(run)) == 0 || counts.contains(expected.point)) {
      continue;
    }
    missing += std::string(expected.point) + "\n";
  }
  for (const auto& [point, count] : counts) {
    std::printf("%12llu  %.*s\n", static_cast<unsigned long long>(count),
                static_cast<int>(point.size()), point.data());
  }
  return missing;
}

}  // namespace ramcloud::sim
