// ReplicaService, work that waits for the device: syncs, the answers that follow them, copies that
// become visible, the flush timer, failures, and shutting down.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backup/replica_service.h"
#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "wire/control_messages.h"
#include "wire/recovery_messages.h"

namespace ramcloud {

/// Calls `done` when all bytes that replicas took before are on the device.
void ReplicaService::when_bytes_synced(std::function<void(Status)> done) {
  ++counters_.syncs;
  if (!tails_) return frames_.sync(std::move(done));
  tails_->commit(std::move(done));
}

/// The same, including all metadata.
void ReplicaService::when_all_synced(std::function<void(Status)> done) {
  if (!tails_) return when_bytes_synced(std::move(done));
  when_bytes_synced([this, alive = alive_, done = std::move(done)](Status status) {
    if (!*alive) return;
    if (!status.ok()) return done(std::move(status));
    ++counters_.syncs;
    frames_.sync(done);
  });
}

void ReplicaService::answer_when_synced(const ReplyHandle& reply, const Key& key) {
  uint32_t bytes_held = 0;  // bytes at this time; more may be added meanwhile
  uint64_t change = 0;
  {
    Shard& shard = table_.shard_of(key.master_id);
    const MutexGuard guard(shard.lock);
    if (const auto it = shard.replicas.find(key); it != shard.replicas.end()) {
      bytes_held = it->second.bytes_held;
      change = it->second.metadata_change;
    }
  }
  RC_FAILPOINT("backup.open.before_sync");
  when_all_synced([this, alive = alive_, handle = reply, key, bytes_held, change](Status status) {
    if (!*alive) return;
    RC_FAILPOINT("backup.open.before_answer");
    if (status.ok() && note_metadata_durable(key, change)) return answer(handle, bytes_held);
    if (status.ok())
      status = {StatusCode::kNotFound, "open: the replica was freed meanwhile"};
    else
      device_status_.fail(status);
    ++counters_.refused;
    reply_error(transport_, handle, status);
  });
}

/// Bytes acknowledged before the request arrived were taken before it, so this sync includes them.
void ReplicaService::on_sync(const Request& request) {
  wire::SyncReplicasRequest asked;
  if (!request.decode(asked)) {
    return reply_error(transport_, request.reply,
                       {StatusCode::kInvalidArgument, "sync: does not decode"});
  }
  uint32_t retry_after_us = 0;
  if (Status refused = check_master(asked.master_id, 0, retry_after_us); !refused.ok()) {
    return reply_error(transport_, request.reply, refused, retry_after_us);
  }
  sync_all([this, alive = alive_, handle = request.reply](const Status& status) {
    if (!*alive) return;
    if (!status.ok()) return reply_error(transport_, handle, status);
    reply_message(transport_, handle, wire::Empty{});
  });
}

/// Notes that the replica's metadata changes up to `change` are on the device. False if there is
/// no such replica now.
bool ReplicaService::note_metadata_durable(const Key& key, uint64_t change) {
  Shard& shard = table_.shard_of(key.master_id);
  const MutexGuard guard(shard.lock);
  const auto found = shard.replicas.find(key);
  if (found == shard.replicas.end()) return false;
  found->second.metadata_durable = std::max(found->second.metadata_durable, change);
  return true;
}

/// A copy becomes a visible replica in one step: first sync its bytes, then write and sync the
/// metadata that shows it, then answer the master.
void ReplicaService::make_visible(const Key& key, uint32_t bytes_held, bool whole,
                                  const ReplyHandle& reply) {
  // `whole` is remembered, because writes that arrive during the sync may close the replica, and
  // they are not on the device.
  when_bytes_synced([this, alive = alive_, handle = reply, key, bytes_held, whole](Status status) {
    if (!*alive) return;
    if (!status.ok()) {
      device_status_.fail(status);
      return reply_error(transport_, handle, status);
    }
    uint64_t change = 0;
    if (Status shown = show(key, whole, change); !shown.ok()) {
      return reply_error(transport_, handle, shown);
    }
    frames_.sync([this, alive, handle, bytes_held, key, change](Status synced) {
      if (!*alive) return;
      RC_FAILPOINT("backup.copy.visible");
      if (synced.ok()) (void)note_metadata_durable(key, change);
      if (synced.ok()) return answer(handle, bytes_held);
      device_status_.fail(synced);
      reply_error(transport_, handle, synced);
    });
  });
}

/// Writes the metadata that makes a copy visible. `whole`: it was closed when its bytes were
/// synced. `change`: the number of this change.
Status ReplicaService::show(const Key& key, bool whole, uint64_t& change) {
  Shard& shard = table_.shard_of(key.master_id);
  const MutexGuard guard(shard.lock);
  const auto found = shard.replicas.find(key);
  if (found == shard.replicas.end()) {
    return {StatusCode::kNotFound, "write: the replica was freed meanwhile"};
  }
  // The replica must stay as recovery was told.
  if (std::ranges::binary_search(shard.frozen, key.master_id)) return frozen_status(key.master_id);
  RC_SOMETIMES("backup.recreation_is_made_visible");
  RC_FAILPOINT("backup.copy.before_visible");
  Replica& replica = found->second;
  replica.incomplete = false;
  replica.length_written = whole;
  if (tails_ && whole) tails_->forget(replica.frame);
  Status written = write_metadata(replica);
  change = replica.metadata_change;
  if (!written.ok()) {
    replica.incomplete = true;  // as in its metadata
    replica.length_written = false;
  }
  return written;
}

void ReplicaService::answer(const ReplyHandle& handle, uint32_t bytes_held) {
  const wire::ReplicaReply reply{bytes_held, 0};
  const Slice slice(bytes_of(reply));
  transport_.reply(handle, StatusCode::kOk, {&slice, 1});
}

/// Answers a write: now, or after the next sync.
void ReplicaService::acknowledge(const ReplyHandle& handle, uint32_t bytes_held) {
  RC_FAILPOINT("backup.write.before_answer");
  if (!options_.synced) return answer(handle, bytes_held);
  syncs_.add({handle, bytes_held});
  syncs_.mark_dirty();
  flush();
}

/// NO_SPACE is not a failure of the device: a copy-on-write file system may need space even for
/// bytes that are allocated. The next write may succeed.
void ReplicaService::write_failed(const Status& status) {
  const bool only_now =
      status.code() == StatusCode::kNoSpace || status.code() == StatusCode::kRetry;
  if (!only_now) device_status_.fail(status);
}

void ReplicaService::mark_dirty() {
  syncs_.mark_dirty();
  start_flush_timer();
}

void ReplicaService::start_flush_timer() {
  if (!flushing_ && !flush_timer_.running()) flush_timer_.start_after(options_.flush_interval);
}

/// With lanes: starts the sync of what they took.
bool ReplicaService::on_turn() {
  if (syncs_.take_added_elsewhere()) {
    flush();  // at the latest when the sync in flight has ended
    return true;
  }
  if (!syncs_.dirty() || flushing_ || flush_timer_.running() || stopping_) return false;
  start_flush_timer();
  return true;
}

/// Metadata changed, but no caller waits for it: callers that need it on the device start a sync
/// themselves.
void ReplicaService::metadata_changed() {
  if (!tails_) return mark_dirty();
  metadata_dirty_ = true;
  if (!flush_timer_.running()) flush_timer_.start_after(options_.flush_interval);
}

void ReplicaService::on_flush_timer() {
  sync_metadata();
  flush();
}

/// Independent of the direct writes of bytes.
void ReplicaService::sync_metadata() {
  if (!metadata_dirty_ || syncing_metadata_ || stopping_) return;
  metadata_dirty_ = false;
  syncing_metadata_ = true;
  ++counters_.syncs;
  frames_.sync([this, alive = alive_](const Status& status) {
    if (!*alive) return;
    syncing_metadata_ = false;
    if (!status.ok()) return device_status_.fail(status);
    if (metadata_dirty_) metadata_changed();
  });
}

void ReplicaService::flush() {
  if (flushing_ || stopping_) return;
  // `syncing_` is empty by now: the writes of the last sync are answered.
  if (!syncs_.begin_sync(syncing_)) return;
  flushing_ = true;
  when_bytes_synced(
      [this, alive = alive_, closed = std::exchange(just_closed_, {})](Status status) {
        if (!*alive) return;
        flushed(status, closed);
      });
}

void ReplicaService::flushed(const Status& status, const std::vector<Key>& closed) {
  flushing_ = false;
  answer_waiting(status);
  if (!status.ok()) {
    device_status_.fail(status);
    syncs_.take_all(syncing_);
    return answer_waiting(status);
  }
  write_closed_lengths(closed);
  if (syncs_.has_writes()) return flush();
  if (syncs_.dirty()) mark_dirty();
}

/// Answers the requests whose sync ended with `status`. Answers of another reactor are handed over
/// together.
void ReplicaService::answer_waiting(const Status& status) {
  for (const SyncQueue::Write& write : syncing_) {
    if (write.answers != nullptr) {
      write.answers->add(write.reply, write.bytes_held, status);
    } else if (status.ok()) {
      answer(write.reply, write.bytes_held);
    } else {
      reply_error(transport_, write.reply, status);
    }
  }
  syncing_.clear();
}

void ReplicaService::write_closed_lengths(const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    Shard& shard = table_.shard_of(key.master_id);
    const MutexGuard guard(shard.lock);
    const auto found = shard.replicas.find(key);
    if (found == shard.replicas.end() || !found->second.closed) continue;
    found->second.length_written = true;
    if (tails_) tails_->forget(found->second.frame);
    if (describe(found->second).ok() || device_status_.failed()) continue;
    found->second.length_written = false;  // no space: tried again with the next sync
    just_closed_.push_back(key);
    mark_dirty();
  }
}

Status ReplicaService::may_tell() const {
  RC_RETURN_IF_ERROR(device_status_.status());
  if (stopping_) return {StatusCode::kRetry, "this backup is shutting down"};
  return {};
}

void ReplicaService::sync_all(std::function<void(Status)> done) {
  when_all_synced([this, alive = alive_, done = std::move(done)](const Status& status) {
    if (!*alive) return;
    if (!status.ok()) device_status_.fail(status);
    done(status);
  });
}

void ReplicaService::shut_down(std::function<void(Status)> done) {
  stopping_ = true;
  table_.stop();
  flush_timer_.stop();
  // From here on the replicas do not change: every reactor refuses later requests.
  std::vector<Replica*> replicas;
  replicas.reserve(replicas_);
  for (Shard& shard : table_.shards()) {
    const MutexGuard guard(shard.lock);
    for (auto& [key, replica] : shard.replicas) replicas.push_back(&replica);
  }
  std::ranges::sort(replicas, {}, &Replica::frame);
  // As for a close, the length is written only when the bytes below it are on the device.
  when_bytes_synced([this, alive = alive_, replicas, done = std::move(done)](Status status) {
    if (!*alive) return;
    if (!status.ok()) return done(status);
    for (Replica* replica : replicas) {
      if (replica->length_written) continue;
      const FrameContent content = content_of(*replica, true);
      if (Status written = frames_.describe(replica->frame, content); !written.ok()) {
        return done(written);
      }
    }
    frames_.sync(done);
  });
}

}  // namespace ramcloud
