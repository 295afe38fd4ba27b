#include "backup/replica_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/sometimes.h"

namespace ramcloud {
namespace {

Status bad(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

}  // namespace

size_t ReplicaTable::KeyHash::operator()(const ReplicaKey& key) const {
  return key.segment_id * 0x9e3779b97f4a7c15 ^ key.master_id * 0xc2b2ae3d27d4eb4f;
}

ReplicaTable::ReplicaTable(Bytes& bytes, size_t replicas) : bytes_(bytes) {
  for (Shard& shard : shards_) {
    const MutexGuard guard(shard.lock);
    shard.replicas.reserve(replicas / shards_.size());
  }
}

/// Server ids are consecutive, so this spreads them evenly.
size_t ReplicaTable::index_of(uint64_t master_id) const {
  return master_id % shards_.size();
}

ReplicaTable::Shard& ReplicaTable::shard_of(uint64_t master_id) {
  return shards_[index_of(master_id)];
}

const ReplicaTable::Shard& ReplicaTable::shard_of(uint64_t master_id) const {
  return shards_[index_of(master_id)];
}

ReplicaTable::PlainWrite ReplicaTable::append_plain(const wire::ReplicaWriteRequest& write,
                                                    ByteView bytes) {
  if (write.flags != 0) return {Plain::kOther};
  Shard& shard = shard_of(write.master_id);
  const MutexGuard guard(shard.lock);
  if (shard.stopped || !std::ranges::binary_search(shard.live, uint64_t{write.master_id})) {
    return {Plain::kOther};
  }
  if (std::ranges::binary_search(shard.frozen, uint64_t{write.master_id})) return {Plain::kOther};
  const auto found = shard.replicas.find({write.master_id, write.segment_id});
  if (found == shard.replicas.end()) return {Plain::kOther};
  Replica& replica = found->second;
  if (write.epoch != replica.epoch || replica.metadata_durable != replica.metadata_change) {
    return {Plain::kOther};
  }
  RC_FAILPOINT("backup.write.before_append");
  const auto appended = append(replica, write.offset, bytes);
  if (appended) return {Plain::kTaken, replica.bytes_held, {}};
  const Status& why = appended.error();
  if (why == StatusCode::kRetry) return {Plain::kNotNow, 0, why};
  if (why == StatusCode::kInvalidArgument || why == StatusCode::kNoSpace) return {Plain::kOther};
  return {Plain::kFailed, 0, why};
}

Result<bool> ReplicaTable::append(Replica& replica, uint32_t offset, ByteView bytes) {
  if (offset > replica.bytes_held) {
    return fail(bad(
        fmt::format("write: offset {} is beyond the {} bytes held", offset, replica.bytes_held)));
  }
  if (bytes.size() > replica.capacity - offset) {
    return fail(bad(fmt::format("write: {} bytes at {} are over the capacity {}", bytes.size(),
                                offset, replica.capacity)));
  }
  const uint32_t known = replica.bytes_held - offset;
  if (known > 0) RC_SOMETIMES("backup.bytes_come_twice");
  if (bytes.size() <= known) return false;
  if (replica.closed) {
    return fail(bad(fmt::format("write: segment is closed with {} bytes", replica.bytes_held)));
  }
  bytes.remove_prefix(known);
  if (Status written = bytes_.append(replica.frame, replica.bytes_held, bytes); !written.ok()) {
    return fail(std::move(written));
  }
  replica.bytes_held += static_cast<uint32_t>(bytes.size());
  return true;
}

void ReplicaTable::set_live(const std::vector<uint64_t>& masters) {
  std::array<std::vector<uint64_t>, kShards> live;
  for (const uint64_t id : masters) live[index_of(id)].push_back(id);
  for (size_t i = 0; i < shards_.size(); ++i) {
    const MutexGuard guard(shards_[i].lock);
    shards_[i].live = std::move(live[i]);
  }
}

void ReplicaTable::freeze(uint64_t master_id) {
  Shard& shard = shard_of(master_id);
  const MutexGuard guard(shard.lock);
  const auto at = std::ranges::lower_bound(shard.frozen, master_id);
  if (at == shard.frozen.end() || *at != master_id) shard.frozen.insert(at, master_id);
}

bool ReplicaTable::frozen(uint64_t master_id) const {
  const Shard& shard = shard_of(master_id);
  const MutexGuard guard(shard.lock);
  return std::ranges::binary_search(shard.frozen, master_id);
}

void ReplicaTable::stop() {
  for (Shard& shard : shards_) {
    const MutexGuard guard(shard.lock);
    shard.stopped = true;
  }
}

}  // namespace ramcloud
