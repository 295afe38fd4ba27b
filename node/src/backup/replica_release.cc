// ReplicaService: freeing frames that are not needed any more. They are of masters that were
// recovered, or an earlier incarnation of this backup left them and their masters have other
// replicas by now.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "backup/replica_service.h"
#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud {
namespace {

/// Frames freed in one turn: each is a write into the page cache.
constexpr size_t kFreedAtOnce = 16;
constexpr size_t kLookedAtOnce = 1024;

}  // namespace

Task<std::vector<uint64_t>> ReplicaService::dead_masters() {
  std::set<uint64_t> ids;
  for (Shard& shard : table_.shards()) {
    {
      const MutexGuard guard(shard.lock);
      for (const auto& [key, replica] : shard.replicas) ids.insert(key.master_id);
    }
    co_await reactor_.sleep(Duration{});
  }
  for (size_t at = 0; at < frames_.former().size(); at += kLookedAtOnce) {
    const size_t end = std::min(frames_.former().size(), at + kLookedAtOnce);
    for (size_t i = at; i < end; ++i) ids.insert(frames_.former()[i].content.master_id);
    co_await reactor_.sleep(Duration{});
  }
  std::vector<uint64_t> dead;
  for (const uint64_t id : ids) {
    if (id != 0 && !servers_.is_live(id)) dead.push_back(id);
  }
  co_return dead;
}

Task<uint32_t> ReplicaService::free_frames_of(uint64_t master_id) {
  if (servers_.is_live(master_id)) {
    log_error("backup.frames_of_a_live_master", {{"master", master_id}});
    co_return 0;
  }
  std::vector<Key> keys;
  Shard& shard = table_.shard_of(master_id);
  {
    const MutexGuard guard(shard.lock);
    for (const auto& [key, replica] : shard.replicas) {
      if (key.master_id == master_id) keys.push_back(key);
    }
  }
  uint32_t freed = 0;
  for (const Key& key : keys) {
    if (stopping_ || device_status_.failed()) co_return freed;
    {
      const MutexGuard guard(shard.lock);
      if (const auto found = shard.replicas.find(key); found != shard.replicas.end()) {
        drop(shard, found);
        ++freed;
      }
    }
    if (freed % kFreedAtOnce == 0) co_await reactor_.sleep(Duration{});
  }
  const auto all = [](const FormerFrame&) { return true; };
  for (const uint32_t frame : frames_.take_former(master_id, all)) {
    if (stopping_ || device_status_.failed()) break;
    if (release_former(frame) && ++freed % kFreedAtOnce == 0) co_await reactor_.sleep(Duration{});
  }
  if (freed > 0) {
    RC_SOMETIMES("backup.frees_frames_of_a_recovered_master");
    log_info("backup.frames_freed", {{"master", master_id}, {"frames", freed}});
  }
  co_return freed;
}

bool ReplicaService::release_former(uint32_t frame) {
  if (const Status released = frames_.release_former(frame); !released.ok()) {
    write_failed(released);
    return false;
  }
  metadata_changed();
  return true;
}

// ---- former frames of masters that are UP

Task<std::map<uint64_t, std::vector<uint64_t>>> ReplicaService::former_segments_of_up_masters() {
  std::map<uint64_t, std::vector<uint64_t>> segments;
  for (size_t at = 0; at < frames_.former().size(); at += kLookedAtOnce) {
    const size_t end = std::min(frames_.former().size(), at + kLookedAtOnce);
    for (size_t i = at; i < end; ++i) {
      const FormerFrame& former = frames_.former()[i];
      if (former.damaged || !servers_.is_live(former.content.master_id)) continue;
      segments[former.content.master_id].push_back(former.content.segment_id);
      adoptions_.note(former);
    }
    co_await reactor_.sleep(Duration{});
  }
  co_return segments;
}

/// A recovery of the master may have begun since it answered. Then its replicas must stay as they
/// were described to recovery.
Task<uint32_t> ReplicaService::free_former(uint64_t master_id, std::vector<uint64_t> segment_ids) {
  uint32_t freed = 0;
  std::ranges::sort(segment_ids);
  for (size_t at = 0; at < segment_ids.size(); at += kFreedAtOnce) {
    if (stopping_ || device_status_.failed()) break;
    if (!servers_.is_live(master_id) || table_.frozen(master_id)) {
      RC_SOMETIMES("backup.former_frames_stay_because_their_master_is_recovered");
      break;
    }
    const auto some =
        std::span(segment_ids).subspan(at, std::min(kFreedAtOnce, segment_ids.size() - at));
    const auto named = [&](const FormerFrame& former) {
      return std::ranges::binary_search(some, former.content.segment_id);
    };
    for (const uint32_t frame : frames_.take_former(master_id, named)) {
      if (release_former(frame)) ++freed;
    }
    co_await reactor_.sleep(Duration{});
  }
  if (freed > 0) {
    RC_SOMETIMES("backup.frees_former_frames_of_a_living_master");
    log_info("backup.former_frames_freed", {{"master", master_id}, {"frames", freed}});
  }
  co_return freed;
}

}  // namespace ramcloud
