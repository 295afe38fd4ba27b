#include "backup/recovery_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backup/frame_bytes.h"
#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "log/digest.h"
#include "log/found_replica.h"
#include "runtime/outcome.h"

namespace ramcloud {
namespace {

using Flag = wire::RecoveryReplica::Flag;

Status bad(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

std::string encode_digest(const std::vector<uint64_t>& segments) {
  std::string body;
  if (segments.empty()) return body;
  log::DigestEncoder encoder(body);
  for (const uint64_t id : segments) encoder.add(id);
  encoder.finish();
  return body;
}

log::KnownOfSegment known_of(const FrameReplica& replica) {
  log::KnownOfSegment known;
  if (replica.damaged) return known;
  if (replica.content.state == FrameState::kClosed) {
    known.closed_length = known.durable_up_to = replica.bytes_held;
  } else {
    known.bytes_held = replica.bytes_held;
  }
  return known;
}

}  // namespace

RecoveryService::RecoveryService(Reactor& reactor, ServiceRegistry& registry, FrameStore& frames,
                                 ServerList& servers, Replicas& replicas)
    : reactor_(reactor),
      transport_(registry.transport()),
      frames_(frames),
      servers_(servers),
      replicas_(replicas),
      scanning_(reactor),
      scope_(reactor) {
  registry.add(wire::Opcode::kRecoveryQuery,
               &call_member<&RecoveryService::on_query, RecoveryService>, this);
  registry.add(wire::Opcode::kRecoveryRead,
               &call_member<&RecoveryService::on_read, RecoveryService>, this);
}

log::SegmentIdentity RecoveryService::identity(uint64_t master_id, uint64_t segment_id) const {
  return {.cluster_uuid = frames_.cluster_uuid(), .master_id = master_id, .segment_id = segment_id};
}

// ---- queries

void RecoveryService::on_query(const Request& request) {
  wire::RecoveryQueryRequest query;
  if (!request.decode(query)) {
    return reply_error(transport_, request.reply, bad("recovery query: does not decode"));
  }
  if (Status term = servers_.check_term(query.term); !term.ok()) {
    return reply_error(transport_, request.reply, term, 0, servers_.refusal());
  }
  if (Status may = replicas_.may_tell(); !may.ok()) {
    return reply_error(transport_, request.reply, may, kRetryAfterUs);
  }
  if (!replicas_.frozen(query.master_id)) {
    log_info("backup.frozen", {{"master", query.master_id}, {"term", query.term}});
    replicas_.freeze(query.master_id);
    RC_FAILPOINT("backup.recovery.frozen");
  }
  if (queries_ >= kMaxQueries) {
    return reply_error(transport_, request.reply,
                       {StatusCode::kRetry, "recovery query: too many queries are in progress"},
                       kRetryAfterUs);
  }
  ++queries_;
  scope_.spawn(answer_query(request.reply, query));
}

Task<Status> RecoveryService::all_synced() {
  const Outcome outcome(reactor_);
  replicas_.sync_all(outcome.callback());
  co_return co_await outcome.wait();
}

/// Bytes taken before the freeze may have been acknowledged, so they must be in the answer. They
/// are synced before the answer, so that a power cut cannot make it wrong.
Task<void> RecoveryService::answer_query(ReplyHandle reply, wire::RecoveryQueryRequest query) {
  const AsyncMutex::Lock lock = co_await scanning_.lock();
  Status status = co_await all_synced();
  if (status.ok()) status = replicas_.may_tell();
  if (!status.ok()) {
    --queries_;
    co_return reply_error(transport_, reply, status, kRetryAfterUs);
  }
  wire::RecoveryQueryReply answer;
  answer.former_server_id = frames_.former_server_id();
  size_t digest_bytes = 0;
  uint64_t scanned_bytes = 0;
  for (const FrameReplica& replica : replicas_.replicas_of(query.master_id)) {
    if (replica.frame < query.first_frame) continue;
    const bool scan = must_scan(replica, query.scan_closed_from);
    if (answer.replicas.size() >= kMaxReplicas || digest_bytes >= kMaxDigestBytes ||
        (scan && scanned_bytes >= kMaxScannedBytes)) {
      answer.next_frame = replica.frame;
      break;
    }
    if (scan) scanned_bytes += replica.content.capacity;
    answer.replicas.push_back(co_await describe(replica, scan));
    digest_bytes += answer.replicas.back().digest.size();
  }
  --queries_;
  RC_FAILPOINT("backup.recovery.before_query_answer");
  reply_message(transport_, reply, answer);
}

/// Closed replicas are described by their metadata, unless the query asks to read them.
bool RecoveryService::must_scan(const FrameReplica& replica, uint64_t scan_closed_from) {
  const bool closed = replica.content.state == FrameState::kClosed && !replica.damaged;
  return !closed || replica.content.segment_id >= scan_closed_from;
}

/// `scan`: its bytes must be read.
Task<wire::RecoveryReplica> RecoveryService::describe(FrameReplica replica, bool scan) {
  const FrameContent& content = replica.content;
  const bool closed = content.state == FrameState::kClosed && !replica.damaged;
  const bool rebooted =
      replica.former && (content.boot_id == BootId{} || content.boot_id != frames_.boot_id());
  log::FoundReplica found;
  found.epoch = content.epoch;
  found.length = found.durable_up_to = closed ? replica.bytes_held : 0;
  found.closed = found.clean_end = closed;
  found.incomplete = content.has(FrameSlot::kIncomplete);
  found.damaged = replica.damaged;
  found.power_safe =
      !rebooted || content.has(FrameSlot::kSynced) || content.has(FrameSlot::kLengthKnown);
  if (scan && !co_await this->scan(replica, found)) {
    RC_SOMETIMES("backup.replica_cannot_be_read_for_recovery");
    found.damaged = true;
  }
  wire::RecoveryReplica told{.segment_id = content.segment_id,
                             .frame = replica.frame,
                             .backup_id = content.backup_id,
                             .epoch = found.epoch,
                             .length = found.length,
                             .header_length = found.header_length,
                             .durable_up_to = found.durable_up_to,
                             .flags = 0,
                             .digest = encode_digest(found.digest),
                             .safe_version = found.safe_version,
                             .holders = {}};
  told.holders.assign(content.holders.all().begin(), content.holders.all().end());
  log::for_each_flag(found, [&told](bool is, Flag flag) { told.flags |= is ? flag : 0u; });
  if (content.has(FrameSlot::kPrimary)) told.flags |= Flag::kPrimary;
  if (content.has(FrameSlot::kSynced)) told.flags |= Flag::kSynced;
  if (rebooted) told.flags |= Flag::kRebooted;
  co_return told;
}

/// False if the device cannot read the bytes.
Task<bool> RecoveryService::scan(FrameReplica replica, log::FoundReplica& found) {
  const FrameBytes bytes(replica.content.capacity);
  const Status status = co_await read_frame(reactor_, frames_, replica.frame, 0, bytes);
  if (!status.ok()) {
    log_warn("backup.recovery_read_failed",
             {{"file", frames_.path()}, {"frame", replica.frame}, {"error", status}});
    co_return false;
  }
  const log::KnownOfSegment known = known_of(replica);
  log::SegmentScanner scanner(identity(replica.content.master_id, replica.content.segment_id),
                              bytes.segment(), known);
  while (scanner.step(kScanSlice)) co_await reactor_.sleep(Duration{});
  log::describe_scan(scanner.take(), known, found);
  co_return true;
}

// ---- reads

void RecoveryService::on_read(const Request& request) {
  wire::RecoveryReadRequest asked;
  if (request.body.size() < sizeof asked) {
    return reply_error(transport_, request.reply, bad("recovery read: request is too short"));
  }
  asked = load<wire::RecoveryReadRequest>(request.body.data());
  ByteView rest = request.body.substr(sizeof asked), extension;
  if (!wire::take_extension(asked.flags, rest, extension) || !rest.empty()) {
    return reply_error(transport_, request.reply, bad("recovery read: bytes behind the request"));
  }
  Status status = check(asked);
  const uint32_t bytes =
      std::min({uint32_t{asked.max_bytes}, wire::kMaxRecoveryReadBytes, asked.end - asked.offset});
  if (status.ok() && bytes > kMaxReadBytesInFlight - reading_bytes_) {
    RC_SOMETIMES("backup.recovery_reads_are_put_off");
    status = {StatusCode::kRetry, "recovery read: too many bytes are in flight"};
  }
  if (!status.ok()) return reply_error(transport_, request.reply, status, kRetryAfterUs);
  asked.max_bytes = bytes;
  reading_bytes_ += bytes;
  scope_.spawn(answer_read(request.reply, asked));
}

Result<FrameReplica> frozen_replica(const RecoveryService::Replicas& replicas, ByteView what,
                                    uint64_t master_id, uint64_t segment_id, uint32_t frame) {
  if (!replicas.frozen(master_id)) {
    return fail(StatusCode::kNotFound,
                fmt::format("{}: no recovery has asked for the replicas of master {} yet", what,
                            master_id));
  }
  auto replica = replicas.replica_in(frame, master_id, segment_id);
  if (replica) return std::move(*replica);
  return fail(StatusCode::kNotFound, fmt::format("{}: frame {} has no replica of segment {} of "
                                                 "master {}",
                                                 what, frame, segment_id, master_id));
}

Status RecoveryService::check(const wire::RecoveryReadRequest& asked) const {
  const auto replica =
      frozen_replica(replicas_, "recovery read", asked.master_id, asked.segment_id, asked.frame);
  if (!replica) return replica.error();
  const uint32_t capacity = replica->content.capacity;
  if (asked.offset % log::kGroupAlignment != 0 || asked.offset >= asked.end ||
      asked.end > capacity || asked.max_bytes == 0) {
    return bad(fmt::format("recovery read: {} to {}, at most {} bytes, of a replica of {}",
                           asked.offset, asked.end, asked.max_bytes, capacity));
  }
  return {};
}

Task<void> RecoveryService::answer_read(ReplyHandle reply, wire::RecoveryReadRequest asked) {
  const uint32_t offset = asked.offset, size = asked.max_bytes;
  const FrameBytes bytes(size);
  Status status = co_await read_frame(reactor_, frames_, asked.frame, offset, bytes);
  log::GroupsCheck check;
  if (status.ok()) {
    log::GroupsChecker checker(identity(asked.master_id, asked.segment_id), bytes.segment(),
                               offset);
    while (checker.step(kScanSlice)) co_await reactor_.sleep(Duration{});
    check = checker.take();
  }
  reading_bytes_ -= size;
  if (status.ok() && check.whole_bytes == 0) {
    const bool too_few =
        !check.bad && size < asked.end - offset && size < wire::kMaxRecoveryReadBytes;
    status = too_few
                 ? bad(fmt::format("recovery read: the group at {} has more than {} bytes", offset,
                                   size))
                 : Status(StatusCode::kCorrupt,
                          fmt::format("segment {} of master {} in frame {} of {}, offset {}: {}",
                                      uint64_t{asked.segment_id}, uint64_t{asked.master_id},
                                      uint32_t{asked.frame}, frames_.path(), offset, check.what));
  }
  if (!status.ok()) co_return reply_error(transport_, reply, status);
  const wire::RecoveryReadReply head{check.whole_bytes, 0};
  const Slice slices[] = {Slice(bytes_of(head)), Slice(bytes.view().substr(0, check.whole_bytes))};
  transport_.reply(reply, StatusCode::kOk, slices);
}

}  // namespace ramcloud
