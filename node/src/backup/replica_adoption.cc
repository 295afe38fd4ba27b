// ReplicaService: former frames that become replicas of this incarnation. adoption_service.h
// decides which do.
#include <algorithm>
#include <utility>

#include "backup/replica_service.h"
#include "base/failpoint.h"
#include "base/logging.h"

namespace ramcloud {

std::optional<AdoptionService::Replicas::Here> ReplicaService::here(const Key& key) const {
  if (opening_.contains(key)) return Here{};
  const auto found = find(key.master_id, key.segment_id);
  if (!found) return std::nullopt;
  return Here{found->closed && !found->incomplete, found->bytes, found->epoch};
}

/// The metadata name this incarnation as the writer, so they are written first: without them the
/// frame stays what it was.
Status ReplicaService::take_over(const FormerFrame& former, const wire::AdoptRequest& request,
                                 uint32_t length) {
  Replica adopted;
  adopted.key = {former.content.master_id, former.content.segment_id};
  adopted.frame = former.frame;
  adopted.epoch = former.content.epoch;
  adopted.capacity = former.content.capacity;
  adopted.bytes_held = length;
  adopted.primary = request.primary;
  adopted.closed = true;
  adopted.length_written = true;
  adopted.metadata_change = ++last_metadata_change_;
  (void)adopted.holders.assign(request.holders);
  Status written = frames_.describe(adopted.frame, content_of(adopted, /*length_known=*/true));
  if (!written.ok()) {
    write_failed(written);
    return written;
  }
  frames_.no_longer_former(adopted.frame);
  Shard& shard = table_.shard_of(adopted.key.master_id);
  const MutexGuard guard(shard.lock);
  shard.replicas.emplace(adopted.key, adopted);
  ++replicas_;
  metadata_changed();
  return {};
}

Status ReplicaService::write_former(uint32_t frame, uint32_t offset, ByteView bytes) {
  Status written = frames_.write(frame, offset, bytes);
  if (!written.ok()) write_failed(written);
  return written;
}

void ReplicaService::sync_frames(std::function<void(Status)> done) {
  ++counters_.syncs;
  frames_.sync([this, alive = alive_, done = std::move(done)](const Status& status) {
    if (!*alive) return;
    if (!status.ok()) device_status_.fail(status);
    done(status);
  });
}

void ReplicaService::when_durable(const Key& key, std::function<void(Status)> done) {
  uint64_t change = 0;
  {
    Shard& shard = table_.shard_of(key.master_id);
    const MutexGuard guard(shard.lock);
    const auto found = shard.replicas.find(key);
    if (found != shard.replicas.end()) change = found->second.metadata_change;
  }
  sync_frames([this, key, change, done = std::move(done)](Status status) {
    if (status.ok() && !note_metadata_durable(key, change)) {
      status = {StatusCode::kNotFound, "adopt: the replica was freed meanwhile"};
    }
    done(std::move(status));
  });
}

}  // namespace ramcloud
