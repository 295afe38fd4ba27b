// Named places where a test kills, stops or delays a process, so that a test can choose "killed
// between the sync and the answer of an open" by name.
//
//   RC_FAILPOINT("backup.open.before_answer");
//
// A name that is not in kFailpoints does not compile. In a test build the place costs one relaxed
// load; in builds without tests (preset `release`) nothing of this exists. RAMCLOUD_FAILPOINTS arms
// places of a process (docs/design/simulation.md#failpoints); a simulation installs a handler
// instead, which acts on a simulated node in the same way.
#pragma once

#ifdef RAMCLOUD_COUNT_SOMETIMES  // defined in builds with tests

#include <atomic>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud {

struct Failpoint {
  const char* name;
  const char* where;
};

inline constexpr Failpoint kFailpoints[] = {
    {"backup.adopt.before_answer", "an adopted replica is synced; its master does not know"},
    {"backup.adopt.before_metadata", "a former frame was verified; it is a former one still"},
    {"backup.copy.before_visible",
     "all bytes of a copied replica are synced; it does not count yet"},
    {"backup.copy.visible", "a copied replica counts; its master does not know"},
    {"backup.free.before_drop", "a master frees a replica; the frame is still taken"},
    {"backup.open.before_answer", "an opened replica is synced; its master does not know"},
    {"backup.open.before_sync", "an opened replica is written and not synced"},
    {"backup.open.frame_taken", "a frame was allocated for a replica and describes none"},
    {"backup.recovery.before_fetch_answer",
     "entries of a dead master were read; they are not sent"},
    {"backup.recovery.before_query_answer",
     "replicas of a dead master are described; the coordinator does not know"},
    {"backup.recovery.frozen", "a dead master's replicas were frozen; none was read"},
    {"backup.write.before_answer", "bytes of a replica are written; their master does not know"},
    {"backup.write.before_append", "bytes of a replica have arrived"},
    {"coordinator.commit.after", "a metadata transaction was committed; nothing else knows"},
    {"coordinator.commit.before", "a metadata transaction is about to be sent to the store"},
    {"coordinator.crash.recorded", "a server is recorded as CRASHED; the list is not pushed yet"},
    {"coordinator.enlist.recorded", "a server is recorded; it does not know its id"},
    {"coordinator.epoch.recorded", "a replication epoch is recorded; its master does not know"},
    {"coordinator.list.before_push", "the server list is about to be sent to one server"},
    {"coordinator.recovery.attempt_continued",
     "the rest of an attempt is recorded; nobody was ordered to recover it"},
    {"coordinator.recovery.attempt_recorded",
     "tablets are recorded as RECOVERING; no recovery master knows"},
    {"coordinator.recovery.before_hand_over", "tablets are about to be recorded as a new owner's"},
    {"coordinator.recovery.before_order", "a recovery master is about to be given its part"},
    {"coordinator.recovery.before_query", "a backup is about to be asked for a dead master's log"},
    {"coordinator.recovery.before_serve", "a new owner is about to be told to serve"},
    {"coordinator.recovery.begun", "a dead server with tablets was seen; no backup was asked"},
    {"coordinator.recovery.handed_over", "tablets are recorded as a new owner's; no server knows"},
    {"coordinator.recovery.log_found", "it is known how far a dead master's log goes"},
    {"coordinator.recovery.ready", "a recovery master has said that it has all of its part"},
    {"coordinator.recovery.served", "a new owner has acknowledged that it serves"},
    {"coordinator.table.create_recorded", "a table is recorded as CREATING; no server knows"},
    {"coordinator.table.created", "a table is recorded as NORMAL; the client does not know"},
    {"coordinator.table.drop_recorded", "a table is recorded as DROPPING; no server knows"},
    {"coordinator.table.dropped", "a table's record is removed; the client does not know"},
    {"coordinator.table.taken", "all servers have taken a new table's tablets; it is CREATING"},
    {"log.side_segment.opened", "a side segment is open and has nothing"},
    {"master.recovery.before_close", "all of a part was replayed; its side segments are open"},
    {"master.recovery.before_commit",
     "a part's side segments are closed on their backups; no head names them"},
    {"master.recovery.before_serve", "a new owner was told to serve, and does not"},
    {"master.recovery.begun", "a part was taken; the coordinator does not know"},
    {"master.recovery.committed", "a head names a part's side segments; it is not READY"},
    {"master.recovery.page_fetched", "entries of a dead master have come, and are not replayed"},
    {"master.recovery.page_replayed", "entries of a dead master are in a side segment"},
    {"master.recovery.ready", "a part is READY; the coordinator does not know"},
    {"master.recovery.served", "recovered tablets are served; the coordinator does not know"},
    {"master.reply.before_send", "a reply whose dependencies are durable is about to be sent"},
    {"master.write.before_append", "a write has arrived and is not in the log"},
    {"replication.adoption.answered", "a backup has answered whether it adopts; it is not counted"},
    {"replication.epoch.before_raise",
     "a replica is lost and the epoch that excludes it not raised"},
    {"replication.epoch.confirmed",
     "the coordinator has answered a raise of the replication epoch"},
    {"replication.head.before_roll", "a head that lost a replica is about to be closed"},
    {"replication.message.answered", "a backup's answer has arrived and is not counted"},
    {"replication.message.before_send", "bytes of a segment are about to be sent to a backup"},
};
inline constexpr size_t kFailpointCount = std::size(kFailpoints);

/// The index of the name in kFailpoints.
consteval size_t failpoint_number(std::string_view name) {
  for (size_t i = 0; i < kFailpointCount; ++i) {
    if (name == kFailpoints[i].name) return i;
  }
  throw "not in kFailpoints";  // a compile-time error
}

enum class FailpointAction : uint8_t { kKill, kStop, kDelay };

/// One item of RAMCLOUD_FAILPOINTS.
struct FailpointOrder {
  size_t number = 0;
  /// Acts only at this pass, counted from 1. 0: kill and stop act at the first pass, delay at every
  /// pass.
  uint32_t nth = 0;
  FailpointAction action = FailpointAction::kKill;
  Duration delay{};
};

/// Parses "NAME[:nth]=kill|stop|delay[:ms],…"; empty for an empty text. INVALID_ARGUMENT names the
/// item and what is accepted.
Result<std::vector<FailpointOrder>> parse_failpoints(std::string_view text);
/// Arms the failpoints of this process (SIGKILL or SIGSTOP to itself, or a sleep of the thread).
/// Call it once, before any thread starts.
void arm_failpoints(const std::vector<FailpointOrder>& orders);
/// From now on every pass of every failpoint calls `handler`; an empty one ends that. For
/// simulation only: one thread. Returns the previous handler.
using FailpointHandler = std::function<void(size_t number)>;
FailpointHandler set_failpoint_handler(FailpointHandler handler);

namespace failpoint {
extern std::atomic<bool> watched[kFailpointCount];
void reached(size_t number);
}  // namespace failpoint

}  // namespace ramcloud

#define RC_FAILPOINT(name)                                                           \
  do {                                                                               \
    constexpr size_t rc_number = ::ramcloud::failpoint_number(name);                 \
    if (::ramcloud::failpoint::watched[rc_number].load(std::memory_order_relaxed)) { \
      ::ramcloud::failpoint::reached(rc_number);                                     \
    }                                                                                \
  } while (false)
#else
#define RC_FAILPOINT(name) \
  do {                     \
  } while (false)
#endif
