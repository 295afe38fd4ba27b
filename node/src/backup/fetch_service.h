// Sends recovery masters the entries that they recover from a dead master's segments
// (docs/design/recovery.md#fetching).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backup/frame_store.h"
#include "backup/hash_ranges.h"
#include "backup/indexed_segments.h"
#include "backup/recovery_service.h"
#include "rpc/rpc.h"
#include "runtime/async_mutex.h"
#include "runtime/reactor.h"
#include "wire/recovery_messages.h"

namespace ramcloud {

class FetchService {
 public:
  /// Limits of what peers can make it hold, in addition to IndexedSegments: this many requests with
  /// this many ranges each, and one page.
  static constexpr size_t kMaxFetches = 64;
  static constexpr size_t kMaxRanges = 4096;
  static constexpr uint32_t kMaxPageBytes = wire::RecoveryFetchRequest::kMostBytes;
  static constexpr uint32_t kRetryAfterUs = 10'000;
  /// Further segments are added to a page as long as it has fewer bytes.
  static constexpr uint32_t kMostBeforeFurther = wire::RecoveryFetchRequest::kBytesAtOnce;

  /// Registers kRecoveryFetch. All arguments outlive this. `room`: IndexedSegments::room_for().
  FetchService(Reactor& reactor, ServiceRegistry& registry, FrameStore& frames,
               RecoveryService::Replicas& replicas, uint64_t room);
  FetchService(const FetchService&) = delete;
  FetchService& operator=(const FetchService&) = delete;

  void on_fetch(const Request& request);
  const IndexedSegments& segments() const { return segments_; }

 private:
  struct Fetch {
    ReplyHandle reply;
    IndexedSegments::Key key;
    uint32_t offset = 0;
    uint32_t max_bytes = 0;
    HashRanges ranges;
    std::vector<IndexedSegments::Key> further;
  };
  /// Entries for an answer.
  struct Page {
    std::string bytes;
    uint32_t entries = 0;
    uint32_t next_offset = 0;
    uint32_t further = 0;
  };
  Result<Fetch> check(wire::RecoveryFetchRequest asked) const;
  Status check_replica(const IndexedSegments::Key& key) const;
  std::vector<IndexedSegments::Key> further_of(const wire::RecoveryFetchRequest& asked) const;
  Task<void> answer(Fetch fetch);
  Task<Status> answer_page(const Fetch& fetch);
  Task<void> add_further(const Fetch& fetch, Page& page);
  Status damage(const Fetch& fetch, const IndexedSegment& segment) const;

  Reactor& reactor_;
  Transport& transport_;
  FrameStore& frames_;
  RecoveryService::Replicas& replicas_;
  IndexedSegments segments_;
  AsyncMutex page_;  // one page is built at a time
  size_t fetches_ = 0;
  TaskScope scope_;
};

}  // namespace ramcloud
