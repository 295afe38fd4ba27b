// ReplicaService, what becomes of frames when their master was recovered.
#include <algorithm>
#include <set>
#include <utility>

#include "backup/replica_service.h"
#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud {
namespace {

/// In a turn: each is a write into the page cache.
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
    if (stopping_ || !device_status_.ok()) co_return freed;
    {
      const MutexGuard guard(shard.lock);
      if (const auto found = shard.replicas.find(key); found != shard.replicas.end()) {
        drop(shard, found);
        ++freed;
      }
    }
    if (freed % kFreedAtOnce == 0) co_await reactor_.sleep(Duration{});
  }
  for (const uint32_t frame : frames_.take_former(master_id)) {
    if (stopping_ || !device_status_.ok()) break;
    if (const Status released = frames_.release_former(frame); !released.ok()) {
      write_failed(released);
      continue;
    }
    metadata_changed();
    if (++freed % kFreedAtOnce == 0) co_await reactor_.sleep(Duration{});
  }
  if (freed > 0) {
    RC_SOMETIMES("backup.frees_frames_of_a_recovered_master");
    log_info("backup.frames_freed", {{"master", master_id}, {"frames", freed}});
  }
  co_return freed;
}

}  // namespace ramcloud
