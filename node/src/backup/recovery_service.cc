#include "backup/recovery_service.h"

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

}  // namespace ramcloud
