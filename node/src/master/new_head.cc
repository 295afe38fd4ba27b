#include "master/new_head.h"

#include <algorithm>

#include "base/sometimes.h"

namespace ramcloud::master {
namespace {
/// How often, and for how long, it checks whether the new head takes data. If not, the coordinator
/// sends the order again.
constexpr Duration kHeadInterval = 500us;
constexpr Duration kHeadLimit = 2s;

/// A side segment that is not part of the log yet may have a higher id than the head that was
/// opened ahead.
uint64_t newest_with_entries(const log::Log& log) {
  uint64_t newest = log.head().segment_id();
  for (const log::Segment* segment : log.others()) newest = std::max(newest, segment->id());
  return newest;
}
}  // namespace

Task<Result<uint64_t>> new_head(Reactor& reactor, Epochs& epochs, log::Log& log) {
  // A slice of cleaning that found an earlier tablet of the range may still append what it copies.
  co_await epochs.grace_period(reactor);
  const uint64_t before = newest_with_entries(log);
  const Time limit = reactor.now() + kHeadLimit;
  do {
    const uint64_t present = log.head().segment_id();
    while (log.roll_head() != StatusCode::kOk) {
      if (!log.cleaning_helps() || reactor.now() >= limit) {
        co_return fail(StatusCode::kRetry, "there is no memory for a new head of the log");
      }
      co_await reactor.sleep(kHeadInterval);
    }
    while (log.head().segment_id() <= present || !log.takes_data()) {
      if (reactor.now() >= limit) {
        co_return fail(StatusCode::kRetry, "the log's new head is not ready yet");
      }
      co_await reactor.sleep(kHeadInterval);
    }
    if (log.head().segment_id() <= before) RC_SOMETIMES("master.head_is_rolled_twice");
  } while (log.head().segment_id() <= before);
  co_return log.head().segment_id();
}

Task<Status> begin_with_newest_head(Reactor& reactor, log::Log& log) {
  const uint64_t newest = log.newest_head();
  const Time limit = reactor.now() + kHeadLimit;
  if (log.head().segment_id() < newest) {
    RC_SOMETIMES("master.tablet_begins_with_the_head_opened_ahead");
    (void)log.roll_head();  // needs no memory: the next head is there
  }
  while (log.head().segment_id() < newest) {
    if (reactor.now() >= limit) {
      co_return Status(StatusCode::kRetry, "the log's next head is not ready yet");
    }
    co_await reactor.sleep(kHeadInterval);
  }
  co_return Status();
}

}  // namespace ramcloud::master
