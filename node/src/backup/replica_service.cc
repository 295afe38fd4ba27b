#include "backup/replica_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "wire/codec.h"

namespace ramcloud {
namespace {

Status bad(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

/// Parses a request's struct. OK if the body has exactly `length` bytes after it.
template <typename T>
const char* split(ByteView body, T& head) {
  if (body.size() < sizeof head) return nullptr;
  head = load<T>(body.data());
  return body.data() + sizeof head;
}

/// Removes the extension from the bytes after a request's struct. An error if they are no valid
/// extension.
Status take_holders(uint32_t flags, ByteView& rest, wire::Holders& holders) {
  ByteView bytes;
  if (!wire::take_extension(flags, rest, bytes)) {
    return bad("the extension is longer than the request");
  }
  if (bytes.empty()) return {};
  wire::ReplicaExtension extension;
  if (!wire::decode(bytes, wire::kExtensible, extension)) return bad("the extension is malformed");
  if (holders.assign(extension.holders)) return {};
  return bad(fmt::format("a segment with {} holders; at most {} are accepted",
                         extension.holders.size(), wire::kMaxHolders));
}

}  // namespace

ReplicaService::ReplicaService(Reactor& reactor, ServiceRegistry& registry, FrameStore& frames,
                               ServerList& servers, Options options)
    : reactor_(reactor),
      transport_(registry.transport()),
      frames_(frames),
      servers_(servers),
      options_(options),
      device_status_(frames.path()),
      syncs_(reactor, options.synced),
      table_(*this, frames.frames_total()),
      list_changes_(servers.subscribe([this] { list_changed(); })),
      flush_timer_(reactor, [this] { on_flush_timer(); }),
      recovery_(reactor, registry, frames, servers, *this),
      fetch_(reactor, registry, frames, *this, IndexedSegments::room_for(options.log_bytes)),
      leases_(registry, servers, table_),
      adoptions_(reactor, registry, frames, *this) {
  if (options_.synced && UnsyncedTails::possible(frames)) {
    tails_ = std::make_unique<UnsyncedTails>(frames);
  }
  list_changed();
  registry.add(wire::Opcode::kReplicaOpen, &call_member<&ReplicaService::on_open, ReplicaService>,
               this);
  registry.add(wire::Opcode::kReplicaWrite, &call_member<&ReplicaService::on_write, ReplicaService>,
               this);
  registry.add(wire::Opcode::kReplicaFree, &call_member<&ReplicaService::on_free, ReplicaService>,
               this);
  registry.add(wire::Opcode::kSyncReplicas, &call_member<&ReplicaService::on_sync, ReplicaService>,
               this);
}

ReplicaService::~ReplicaService() {
  *alive_ = false;
  if (!lanes_.empty()) reactor_.remove_hook(this);
}

BackupLane& ReplicaService::add_lane(Reactor& reactor, Transport& transport, Counter& writes) {
  if (lanes_.empty()) reactor_.add_hook(this);
  lanes_.push_back(std::make_unique<BackupLane>(SharedReplicas{table_, syncs_, device_status_},
                                                reactor, transport, writes));
  return *lanes_.back();
}

/// When this returns, the list is in force on all reactors. Only then is its sender answered.
void ReplicaService::list_changed() {
  std::vector<uint64_t> live;
  for (const ListedServer& server : servers_.servers()) {
    if (server.live()) live.push_back(server.server_id);
  }
  table_.set_live(live);
}

Status ReplicaService::frozen_status(uint64_t master_id) {
  RC_SOMETIMES("backup.frozen_master_is_refused");
  return {StatusCode::kCrashed,
          fmt::format("master {} is being recovered: this backup accepts no more of its data",
                      master_id)};
}

/// Only a master that the list shows as UP may change replicas. A crashed master is recovered from
/// the bytes that are here now (docs/design/replication.md).
Status ReplicaService::check_master(uint64_t master_id, uint64_t list_version,
                                    uint32_t& retry_after_us) const {
  retry_after_us = 0;
  // Checked before the list: if the master is still alive, this answer makes it stop.
  if (table_.frozen(master_id)) return frozen_status(master_id);
  RC_RETURN_IF_ERROR(device_status_.status());
  if (stopping_) {
    retry_after_us = kRetryAfterUs;
    return {StatusCode::kRetry, "this backup is shutting down"};
  }
  const ListedServer* master = servers_.find(master_id);
  if (master != nullptr && master->live()) return {};
  if (master == nullptr && list_version > servers_.version()) {
    RC_SOMETIMES("backup.knows_an_older_list_than_the_master");
    retry_after_us = kRetryAfterUs;
    return {
        StatusCode::kRetry,
        fmt::format("master {} uses version {} of the server list, this backup has only version {}",
                    master_id, list_version, servers_.version())};
  }
  return {StatusCode::kCrashed,
          fmt::format("master {} is {} in server list {}", master_id,
                      master == nullptr ? "absent" : "listed as crashed", servers_.version())};
}

Status ReplicaService::check_open(const wire::ReplicaOpenRequest& open,
                                  ByteView segment_bytes) const {
  if (open.length != segment_bytes.size()) {
    return bad(
        fmt::format("open: length is {}, and {} bytes follow", open.length, segment_bytes.size()));
  }
  if (open.capacity == 0 || open.capacity > log::kSegmentBytes) {
    return bad(fmt::format("open: capacity is {}; 1 to {} are accepted", open.capacity,
                           log::kSegmentBytes));
  }
  if (open.length > open.capacity) {
    return bad(fmt::format("open: length {} is over the capacity {}", open.length, open.capacity));
  }
  return {};
}

std::optional<ReplicaService::Held> ReplicaService::find(uint64_t master_id,
                                                         uint64_t segment_id) const {
  const Shard& shard = table_.shard_of(master_id);
  const MutexGuard guard(shard.lock);
  const auto found = shard.replicas.find({master_id, segment_id});
  if (found == shard.replicas.end()) return std::nullopt;
  const Replica& replica = found->second;
  return Held{replica.frame,      replica.epoch,  replica.bytes_held,
              replica.incomplete, replica.closed, replica.holders};
}

void ReplicaService::on_open(const Request& request) {
  wire::ReplicaOpenRequest open;
  const char* bytes = split(request.body, open);
  if (bytes == nullptr) return refuse(request.reply, bad("open: request is too short"));
  ByteView segment_bytes(bytes, request.body.size() - sizeof open);
  wire::Holders holders;
  Status status = take_holders(open.flags, segment_bytes, holders);
  if (!status.ok()) return refuse(request.reply, status);
  uint32_t retry_after_us = 0;
  status = check_master(open.master_id, open.list_version, retry_after_us);
  if (status.ok()) status = check_open(open, segment_bytes);
  if (!status.ok()) {
    return refuse_open(request.reply, {open.master_id, open.segment_id}, status, retry_after_us);
  }

  const Key key{open.master_id, open.segment_id};
  bool here = false;
  {
    Shard& shard = table_.shard_of(open.master_id);
    const MutexGuard guard(shard.lock);
    const auto found = shard.replicas.find(key);
    here = found != shard.replicas.end();
    if (here) {
      Replica& replica = found->second;
      status = reopen(replica, open, holders);
      if (status.ok() && !replica.closed) status = append(replica, 0, segment_bytes);
    }
  }
  if (!here) return take_frame(open, holders, segment_bytes, request.reply);
  if (!status.ok()) return refuse(request.reply, status);
  ++counters_.opens;
  answer_when_synced(request.reply, key);
}

/// A repeated open, or one with a higher epoch after the master lost a replica of this segment.
Status ReplicaService::reopen(Replica& replica, const wire::ReplicaOpenRequest& open,
                              const wire::Holders& holders) {
  if (open.epoch < replica.epoch) {
    return {
        StatusCode::kStaleTerm,
        fmt::format("open: epoch {} of segment {} of master {} is old, the replica has epoch {}",
                    open.epoch, open.segment_id, open.master_id, replica.epoch)};
  }
  if (open.capacity != replica.capacity) {
    return bad(fmt::format("open: capacity {} differs from the replica's {}", open.capacity,
                           replica.capacity));
  }
  return note(replica, open.epoch, holders);
}

/// A new replica: the frame's space is allocated without blocking the reactor; then fill_frame()
/// does the rest.
void ReplicaService::take_frame(const wire::ReplicaOpenRequest& open, const wire::Holders& holders,
                                ByteView segment_bytes, const ReplyHandle& reply) {
  const Key key{open.master_id, open.segment_id};
  const uint64_t number = ++last_opening_;
  if (!opening_.emplace(key, number).second) {
    RC_SOMETIMES("backup.same_open_comes_while_its_frame_is_prepared");
    return refuse(reply, {StatusCode::kRetry, "open: this replica's frame is being prepared"},
                  kRetryAfterUs);
  }
  allocate_for(std::make_shared<const Opening>(
                   Opening{open, holders, std::string(segment_bytes), reply, number}),
               WhenFull::kAskForFrames);
}

/// If no frame is free, asks once to free frames that are not needed any more.
void ReplicaService::allocate_for(std::shared_ptr<const Opening> opening, WhenFull when_full) {
  const bool copy = (opening->open.flags & wire::ReplicaOpenRequest::kRecreation) != 0;
  const FrameClass frame_class = copy ? FrameClass::kCopy : FrameClass::kHead;
  ++preparing_;
  auto done = [this, alive = alive_, opening = std::move(opening), when_full,
               frame_class](const Result<uint32_t>& frame) {
    if (!*alive) return;
    --preparing_;
    full_for_.reset();
    const bool full = !frame && frame.error() == StatusCode::kNoSpace;
    if (full) RC_SOMETIMES("backup.has_no_frame");
    if (full) full_for_ = frame_class;
    if (!full || when_full == WhenFull::kRefuse || !no_frame_is_free_) {
      return fill_frame(*opening, frame);
    }
    no_frame_is_free_([this, alive, opening] {
      if (*alive) allocate_for(opening, WhenFull::kRefuse);
    });
  };
  frames_.allocate(frame_class, std::move(done));
}

/// The conditions that were checked before the allocation may have changed.
void ReplicaService::fill_frame(const Opening& opening, const Result<uint32_t>& frame) {
  const wire::ReplicaOpenRequest& open = opening.open;
  const Key key = opening.key();
  const auto waiting = opening_.find(key);
  const bool wanted = waiting != opening_.end() && waiting->second == opening.number;
  if (wanted) opening_.erase(waiting);
  if (!frame) return refuse_open(opening.reply, key, frame.error());
  RC_FAILPOINT("backup.open.frame_taken");
  uint32_t retry_after_us = 0;
  Status status = check_master(open.master_id, open.list_version, retry_after_us);
  if (status.ok() && !wanted) {
    status = {StatusCode::kNotFound, "open: the replica was freed meanwhile"};
  }
  if (!status.ok()) {
    const Status freed = frames_.release(*frame);
    if (!freed.ok()) device_status_.fail(freed);
    return refuse_open(opening.reply, key, status, retry_after_us);
  }
  status = begin(open, opening.holders, opening.segment_bytes, *frame);
  if (!status.ok()) return refuse(opening.reply, status);
  ++counters_.opens;
  answer_when_synced(opening.reply, key);
}

/// Fills a frame that was just taken. A refused open keeps no frame. But its bytes may be on the
/// device nevertheless, and it is unknown whether their removal is.
Status ReplicaService::begin(const wire::ReplicaOpenRequest& open, const wire::Holders& holders,
                             ByteView segment_bytes, uint32_t frame) {
  Replica fresh;
  fresh.key = {open.master_id, open.segment_id};
  fresh.frame = frame;
  fresh.epoch = open.epoch;
  fresh.capacity = open.capacity;
  fresh.primary = (open.flags & wire::ReplicaOpenRequest::kPrimary) != 0;
  fresh.incomplete = (open.flags & wire::ReplicaOpenRequest::kRecreation) != 0;
  fresh.holders = holders;
  Shard& shard = table_.shard_of(open.master_id);
  const MutexGuard guard(shard.lock);
  const auto it = shard.replicas.emplace(fresh.key, fresh).first;
  ++replicas_;
  Status status = write_metadata(it->second);
  if (status.ok()) status = append(it->second, 0, segment_bytes);
  if (!status.ok()) drop(shard, it);
  return status;
}

/// The data path: no waiting, and without `synced` no allocation.
void ReplicaService::on_write(const Request& request) {
  wire::ReplicaWriteRequest write;
  const char* bytes = split(request.body, write);
  if (bytes == nullptr) return refuse(request.reply, bad("write: request is too short"));
  ByteView segment_bytes(bytes, request.body.size() - sizeof write);
  wire::Holders holders;
  Status status = take_holders(write.flags, segment_bytes, holders);
  if (!status.ok()) return refuse(request.reply, status);
  const bool whole = write.length == segment_bytes.size();
  if (whole && !device_status_.failed() && write_plain(write, segment_bytes, request.reply)) return;
  uint32_t retry_after_us = 0;
  status = check_master(write.master_id, 0, retry_after_us);
  if (!status.ok()) return refuse(request.reply, status, retry_after_us);
  if (!whole) {
    return refuse(request.reply, bad(fmt::format("write: length is {}, and {} bytes follow",
                                                 write.length, segment_bytes.size())));
  }
  const Key key{write.master_id, write.segment_id};
  Next next = Next::kAcknowledge;
  uint32_t bytes_held = 0;
  bool closed = false;
  {
    Shard& shard = table_.shard_of(write.master_id);
    const MutexGuard guard(shard.lock);
    const auto found = shard.replicas.find(key);
    if (found == shard.replicas.end()) {
      status = {StatusCode::kNotFound,
                fmt::format("write: no replica of segment {} of master {} is here",
                            write.segment_id, write.master_id)};
    } else {
      status = change(found->second, write, holders, segment_bytes, next);
      bytes_held = found->second.bytes_held;
      closed = found->second.closed;
    }
  }
  if (!status.ok()) return refuse(request.reply, status);
  switch (next) {
    case Next::kAcknowledge:
      return acknowledge(request.reply, bytes_held);
    case Next::kWhenSynced:
      return answer_when_synced(request.reply, key);
    case Next::kMakeVisible:
      return make_visible(key, bytes_held, closed, request.reply);
  }
}

/// False: it is not a plain write.
bool ReplicaService::write_plain(const wire::ReplicaWriteRequest& write, ByteView bytes,
                                 const ReplyHandle& reply) {
  const auto [outcome, bytes_held, why] = table_.append_plain(write, bytes);
  switch (outcome) {
    case ReplicaTable::Plain::kTaken:
      ++counters_.writes;
      counters_.written_bytes += write.length;
      if (options_.writes != nullptr) options_.writes->add_from_one_thread();
      mark_dirty();
      acknowledge(reply, bytes_held);
      return true;
    case ReplicaTable::Plain::kFailed:
      device_status_.fail(why);
      [[fallthrough]];
    case ReplicaTable::Plain::kNotNow:
      refuse(reply, why);
      return true;
    case ReplicaTable::Plain::kOther:
      return false;
  }
  return false;
}

/// Applies a write of any kind to a replica. Under the lock of its shard.
Status ReplicaService::change(Replica& replica, const wire::ReplicaWriteRequest& write,
                              const wire::Holders& holders, ByteView bytes, Next& next) {
  if (write.epoch < replica.epoch) {
    RC_SOMETIMES("backup.write_of_a_former_epoch");
    return {StatusCode::kStaleTerm, fmt::format("write: epoch {} is old, the replica has epoch {}",
                                                write.epoch, replica.epoch)};
  }
  RC_FAILPOINT("backup.write.before_append");
  RC_RETURN_IF_ERROR(append(replica, write.offset, bytes));
  RC_RETURN_IF_ERROR(note(replica, write.epoch, holders));
  ++counters_.writes;
  counters_.written_bytes += write.length;
  if (options_.writes != nullptr) options_.writes->add_from_one_thread();
  const bool close = (write.flags & wire::ReplicaWriteRequest::kClose) != 0;
  const bool complete = (write.flags & wire::ReplicaWriteRequest::kWriteComplete) != 0;
  if ((close || complete) && write.offset + write.length != replica.bytes_held) {
    return bad(fmt::format("write: ends at {}, but {} bytes are held", write.offset + write.length,
                           replica.bytes_held));
  }
  if (close && replica.incomplete && !complete) {
    return bad("write: a re-creation is closed by the flag kWriteComplete");
  }
  if (close && !replica.closed) {
    replica.closed = true;
    ++counters_.closes;
  }
  if (complete && replica.incomplete) {
    next = Next::kMakeVisible;
    return {};
  }
  if (close) {
    if (!replica.length_written) just_closed_.push_back(replica.key);
    mark_dirty();
  }
  // The epoch and the holders must be on the device before the answer, because the master relies on
  // them. Such changes are rare.
  if (replica.metadata_durable != replica.metadata_change) next = Next::kWhenSynced;
  return {};
}

/// Appends bytes. Bytes that the replica has already are skipped, so a repeated message is
/// harmless.
Status ReplicaService::append(Replica& replica, uint32_t offset, ByteView bytes) {
  const auto added = table_.append(replica, offset, bytes);
  if (added) {
    if (*added) mark_dirty();
    return {};
  }
  // INVALID_ARGUMENT is the master's error; any other error is a failed write.
  if (added.error() != StatusCode::kInvalidArgument) write_failed(added.error());
  return added.error();
}

/// Any reactor.
Status ReplicaService::append(uint32_t frame, uint32_t offset, ByteView bytes) {
  return tails_ ? tails_->append(frame, bytes) : frames_.write(frame, offset, bytes);
}

/// Stores a higher epoch and new holders. The epoch rises when the master goes on without a lost
/// replica, which may lack acknowledged data if it comes back. `holders` (empty: unchanged):
/// recovery must know all servers on whose replicas an acknowledgement relies.
Status ReplicaService::note(Replica& replica, uint32_t epoch, const wire::Holders& holders) {
  const bool moved = !holders.empty() && holders != replica.holders;
  if (epoch == replica.epoch && !moved) return {};
  const uint32_t former_epoch = std::exchange(replica.epoch, epoch);
  const wire::Holders former_holders = replica.holders;
  if (moved) replica.holders = holders;
  Status status = write_metadata(replica);
  if (status.ok()) return status;
  // Restore the old value. Otherwise the repeated message would be acknowledged although nothing
  // was written.
  replica.epoch = former_epoch;
  replica.holders = former_holders;
  return status;
}

FrameContent ReplicaService::content_of(const Replica& replica, bool length_known) const {
  FrameContent content;
  // "Closed" is written only together with the length, after the bytes were synced.
  content.state = replica.closed && length_known ? FrameState::kClosed : FrameState::kOpen;
  content.flags = static_cast<uint8_t>((replica.primary ? FrameSlot::kPrimary : 0) |
                                       (replica.incomplete ? FrameSlot::kIncomplete : 0) |
                                       (length_known ? FrameSlot::kLengthKnown : 0) |
                                       (options_.synced ? FrameSlot::kSynced : 0));
  content.epoch = replica.epoch;
  content.master_id = replica.key.master_id;
  content.segment_id = replica.key.segment_id;
  content.capacity = replica.capacity;
  content.length = replica.bytes_held;
  content.holders = replica.holders;
  return content;
}

/// Writes metadata on which the master will rely; answer_when_synced() waits for it.
Status ReplicaService::write_metadata(Replica& replica) {
  replica.metadata_change = ++last_metadata_change_;
  return describe(replica);
}

Status ReplicaService::describe(const Replica& replica) {
  const Status written =
      frames_.describe(replica.frame, content_of(replica, replica.length_written));
  if (!written.ok()) write_failed(written);
  metadata_changed();
  return written;
}

void ReplicaService::on_free(const Request& request) {
  RC_FAILPOINT("backup.free.before_drop");
  wire::ReplicaFreeRequest free;
  if (request.body.size() != sizeof free) {
    return refuse(request.reply, bad(fmt::format("free: request has {} bytes, not {}",
                                                 request.body.size(), sizeof free)));
  }
  free = load<wire::ReplicaFreeRequest>(request.body.data());
  uint32_t retry_after_us = 0;
  const Status status = check_master(free.master_id, 0, retry_after_us);
  if (!status.ok()) return refuse(request.reply, status, retry_after_us);
  {
    Shard& shard = table_.shard_of(free.master_id);
    const MutexGuard guard(shard.lock);
    const auto found = shard.replicas.find({free.master_id, free.segment_id});
    if (found != shard.replicas.end()) {
      ++counters_.frees;
      drop(shard, found);
    }
  }
  opening_.erase({free.master_id, free.segment_id});  // its frame is freed when it arrives
  adoptions_.forget({free.master_id, free.segment_id});
  transport_.reply(request.reply, StatusCode::kOk, {});
}

/// Removes a replica. Under the shard's lock, so no reactor writes to the frame afterwards.
void ReplicaService::drop(Shard& shard, ReplicaTable::Replicas::iterator it) {
  if (tails_) tails_->forget(it->second.frame);
  // A frame that cannot be released stays taken, because its metadata still names the replica.
  if (const Status freed = frames_.release(it->second.frame); !freed.ok()) write_failed(freed);
  shard.replicas.erase(it);
  --replicas_;
  metadata_changed();
}

void ReplicaService::refuse(const ReplyHandle& reply, const Status& status, uint32_t retry_after_us,
                            const wire::ErrorDetails& details) {
  ++counters_.refused;
  if (status.code() == StatusCode::kRetry && retry_after_us == 0) retry_after_us = kRetryAfterUs;
  reply_error(transport_, reply, status, retry_after_us, details);
}

/// Refuses an open before a frame's metadata named the replica. Unless another open of it came
/// before, nobody can find the replica on this device, and the answer says so (NOTHING_WRITTEN).
void ReplicaService::refuse_open(const ReplyHandle& reply, const Key& key, const Status& status,
                                 uint32_t retry_after_us) {
  wire::ErrorDetails details;
  const bool here = find(key.master_id, key.segment_id).has_value() || opening_.contains(key);
  if (!here) details.flags = wire::ErrorDetails::kNothingWritten;
  refuse(reply, status, retry_after_us, details);
}

FrameReplica ReplicaService::frame_replica(const Replica& replica) const {
  FrameReplica there{.frame = replica.frame,
                     .former = false,
                     .damaged = false,
                     .content = content_of(replica, replica.closed),
                     .bytes_held = replica.bytes_held};
  there.content.backup_id = frames_.server_id();
  return there;
}

namespace {

FrameReplica former_replica(const FormerFrame& former) {
  const FrameContent& content = former.content;
  return {.frame = former.frame,
          .former = true,
          .damaged = former.damaged,
          .content = content,
          .bytes_held = content.has(FrameSlot::kLengthKnown) ? content.length : 0};
}

}  // namespace

std::vector<FrameReplica> ReplicaService::replicas_of(uint64_t master_id) const {
  std::vector<FrameReplica> replicas;
  {
    const Shard& shard = table_.shard_of(master_id);
    const MutexGuard guard(shard.lock);
    for (const auto& [key, replica] : shard.replicas) {
      if (key.master_id == master_id) replicas.push_back(frame_replica(replica));
    }
  }
  for (const FormerFrame& former : frames_.former()) {
    if (former.content.master_id == master_id) replicas.push_back(former_replica(former));
  }
  std::ranges::sort(replicas, {}, &FrameReplica::frame);
  return replicas;
}

std::optional<FrameReplica> ReplicaService::replica_in(uint32_t frame, uint64_t master_id,
                                                       uint64_t segment_id) const {
  {
    const Shard& shard = table_.shard_of(master_id);
    const MutexGuard guard(shard.lock);
    const auto found = shard.replicas.find({master_id, segment_id});
    if (found != shard.replicas.end() && found->second.frame == frame) {
      return frame_replica(found->second);
    }
  }
  const FormerFrame* former = frames_.find_former(frame);
  if (former == nullptr || former->content.master_id != master_id ||
      former->content.segment_id != segment_id) {
    return std::nullopt;
  }
  return former_replica(*former);
}

}  // namespace ramcloud
