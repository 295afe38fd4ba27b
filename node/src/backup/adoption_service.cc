#include "backup/adoption_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "backup/frame_bytes.h"
#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "log/group_reader.h"
#include "runtime/outcome.h"

namespace ramcloud {
namespace {

ReplicaKey key_of(const wire::AdoptRequest& request) {
  return {request.master_id, request.segment_id};
}

/// A frame that will never be adopted.
Status unfit(const FormerFrame& former, std::string why) {
  return {StatusCode::kCorrupt,
          fmt::format("adopt: frame {} with segment {} of master {}: {}", former.frame,
                      former.content.segment_id, former.content.master_id, why)};
}

Status gone(const wire::AdoptRequest& request) {
  return {StatusCode::kNotFound,
          fmt::format("adopt: no former frame with segment {} of master {} is here",
                      request.segment_id, request.master_id)};
}

}  // namespace

AdoptionService::AdoptionService(Reactor& reactor, ServiceRegistry& registry, FrameStore& frames,
                                 Replicas& replicas)
    : reactor_(reactor),
      transport_(registry.transport()),
      frames_(frames),
      replicas_(replicas),
      verifying_(reactor),
      scope_(reactor) {
  registry.add(wire::Opcode::kReplicaAdopt,
               &call_member<&AdoptionService::on_adopt, AdoptionService>, this);
}

// ---- what is offered

void AdoptionService::note(const FormerFrame& former) {
  const FrameContent& content = former.content;
  if (former.damaged || content.has(FrameSlot::kIncomplete) || unfit_.contains(former.frame)) {
    return;
  }
  auto& frames = offered_[{content.master_id, content.segment_id}];
  if (std::ranges::find(frames, former.frame) == frames.end()) frames.push_back(former.frame);
}

void AdoptionService::drop(const ReplicaKey& key, uint32_t frame) {
  const auto found = offered_.find(key);
  if (found == offered_.end()) return;
  std::erase(found->second, frame);
  if (found->second.empty()) offered_.erase(found);
}

void AdoptionService::forget(const ReplicaKey& key) {
  in_progress_.erase(key);
  const auto found = offered_.find(key);
  if (found == offered_.end()) return;
  unfit_.insert(found->second.begin(), found->second.end());
  offered_.erase(found);
}

const FormerFrame* AdoptionService::still_former(const ReplicaKey& key, uint32_t frame) const {
  const FormerFrame* former = frames_.find_former(frame);
  if (former == nullptr || former->content.master_id != key.master_id ||
      former->content.segment_id != key.segment_id) {
    return nullptr;
  }
  return former;
}

// ---- requests

void AdoptionService::on_adopt(const Request& request) {
  wire::AdoptRequest asked;
  if (!request.decode(asked) || asked.holders.size() > wire::kMaxHolders) {
    return reply_error(transport_, request.reply,
                       {StatusCode::kInvalidArgument, "adopt: the request is malformed"});
  }
  const ReplicaKey key = key_of(asked);
  uint32_t retry_after_us = 0;
  Status status = replicas_.may_change(key.master_id, asked.list_version, retry_after_us);
  if (!status.ok()) return refuse(request.reply, key, status, retry_after_us);
  if (const auto here = replicas_.here(key)) {
    if (here->whole && here->epoch >= asked.epoch && here->length >= asked.length) {
      RC_SOMETIMES("backup.adopted_replica_is_asked_for_again");
      return answer_when_durable(request.reply, key);
    }
    return refuse(request.reply, key,
                  {StatusCode::kInvalidArgument, "adopt: another replica of the segment is here"});
  }
  if (requests_ >= kMaxRequests || in_progress_.contains(key)) {
    RC_SOMETIMES("backup.adoption_is_put_off");
    return refuse(request.reply, key,
                  {StatusCode::kRetry, "adopt: requests before this one are in progress"},
                  kRetryAfterUs);
  }
  ++requests_;
  in_progress_.emplace(key, ++last_number_);
  scope_.spawn(adopt(request.reply, std::move(asked), last_number_));
}

Task<void> AdoptionService::adopt(ReplyHandle reply, wire::AdoptRequest request, uint64_t number) {
  const ReplicaKey key = key_of(request);
  Status status;
  {
    const AsyncMutex::Lock lock = co_await verifying_.lock();
    status = co_await adopt_any(request, number);
  }
  --requests_;
  const auto found = in_progress_.find(key);
  if (found != in_progress_.end() && found->second == number) in_progress_.erase(found);
  if (status.ok()) co_return answer_when_durable(reply, key);
  RC_SOMETIMES("backup.adoption_is_refused");
  log_info("backup.not_adopted",
           {{"master", key.master_id}, {"segment", key.segment_id}, {"why", status}});
  refuse(reply, key, status);
}

/// The volume may have several frames of the segment.
Task<Status> AdoptionService::adopt_any(const wire::AdoptRequest& request, uint64_t number) {
  const ReplicaKey key = key_of(request);
  std::vector<uint32_t> frames;
  if (const auto found = offered_.find(key); found != offered_.end()) frames = found->second;
  Status status = gone(request);
  for (const uint32_t frame : frames) {
    status = co_await adopt_frame(request, number, frame);
    if (status == StatusCode::kCorrupt) {
      log_warn("backup.former_frame_is_unfit", {{"file", frames_.path()}, {"why", status}});
      unfit_.insert(frame);
    }
    const bool leaves =
        status.ok() || status == StatusCode::kCorrupt || status == StatusCode::kNotFound;
    if (leaves) drop(key, frame);
    if (status.ok() || !leaves) break;
  }
  co_return status;
}

/// Everything may change while the frame is read, so all conditions are checked afterwards.
Task<Status> AdoptionService::adopt_frame(const wire::AdoptRequest& request, uint64_t number,
                                          uint32_t frame) {
  const ReplicaKey key = key_of(request);
  const FormerFrame* former = still_former(key, frame);
  if (former == nullptr) co_return gone(request);
  const auto length = co_await verify(*former, request);
  if (!length) co_return length.error();
  if (Status status = co_await synced(); !status.ok()) co_return status;
  uint32_t ignored = 0;
  if (Status may = replicas_.may_change(key.master_id, request.list_version, ignored); !may.ok()) {
    RC_SOMETIMES("backup.adoption_comes_too_late");
    co_return may;
  }
  const auto wanted = in_progress_.find(key);
  if (wanted == in_progress_.end() || wanted->second != number) {
    RC_SOMETIMES("backup.adoption_is_not_wanted_any_more");
    co_return Status(StatusCode::kInvalidArgument, "adopt: the replica was freed meanwhile");
  }
  former = still_former(key, frame);
  if (former == nullptr) {
    RC_SOMETIMES("backup.frame_is_freed_while_it_is_adopted");
    co_return gone(request);
  }
  if (replicas_.here(key)) {
    co_return Status(StatusCode::kInvalidArgument, "adopt: another replica came meanwhile");
  }
  RC_FAILPOINT("backup.adopt.before_metadata");
  if (Status taken = replicas_.take_over(*former, request, *length); !taken.ok()) co_return taken;
  RC_SOMETIMES("backup.former_frame_is_adopted");
  ++adopted_;
  co_return Status();
}

/// The length of the segment in the frame; CORRUPT if it is not whole.
Task<Result<uint32_t>> AdoptionService::verify(FormerFrame former,
                                               const wire::AdoptRequest& request) {
  const FrameContent& content = former.content;
  if (content.epoch < request.epoch) {
    co_return fail(unfit(former, fmt::format("epoch {} is below that of the close, {}",
                                             content.epoch, request.epoch)));
  }
  const bool closed = content.state == FrameState::kClosed && content.has(FrameSlot::kLengthKnown);
  const FrameBytes bytes(closed ? content.length : content.capacity);
  if (Status read = co_await read_frame(reactor_, frames_, former.frame, 0, bytes); !read.ok()) {
    co_return fail(unfit(former, read.message()));
  }
  log::KnownOfSegment known;
  if (closed) known.closed_length = known.durable_up_to = content.length;
  log::SegmentScanner scanner({.cluster_uuid = frames_.cluster_uuid(),
                               .master_id = content.master_id,
                               .segment_id = content.segment_id},
                              bytes.segment(), known);
  while (scanner.step(kScanSlice)) co_await reactor_.sleep(Duration{});
  const log::SegmentScan scan = scanner.take();
  if (scan.end != log::ScanEnd::kClosed) {
    co_return fail(unfit(former, scan.what.empty() ? "it has no footer" : scan.what));
  }
  if (scan.valid_bytes < request.length) {
    co_return fail(unfit(
        former, fmt::format("{} bytes; the segment has {}", scan.valid_bytes, request.length)));
  }
  const uint32_t certificate = log::certificate_of(bytes.segment(), scan.valid_bytes);
  if (scan.valid_bytes == request.length && certificate != request.certificate) {
    co_return fail(unfit(former, "its footer is not that of the segment"));
  }
  if (scan.valid_bytes > request.length) RC_SOMETIMES("backup.frame_is_older_than_a_compaction");
  if (!closed) {
    const ByteView valid = bytes.view().substr(0, scan.valid_bytes);
    if (Status written = co_await write_back(former, valid); !written.ok()) {
      co_return fail(written);
    }
  }
  co_return scan.valid_bytes;
}

/// Writes the bytes to the frame again, as it was closed before it was known that they are on the
/// device. After a sync that failed, the cache may have shown us bytes that no later sync writes.
Task<Status> AdoptionService::write_back(const FormerFrame& former, ByteView bytes) {
  const ReplicaKey key{former.content.master_id, former.content.segment_id};
  for (uint32_t at = 0; at < bytes.size(); at += kScanSlice) {
    if (still_former(key, former.frame) == nullptr) {
      co_return Status(StatusCode::kNotFound, "adopt: the frame was freed meanwhile");
    }
    const Status written = replicas_.write_former(former.frame, at, bytes.substr(at, kScanSlice));
    if (!written.ok()) co_return written;
    co_await reactor_.sleep(Duration{});
  }
  RC_SOMETIMES("backup.former_frame_is_written_back");
  co_return Status();
}

Task<Status> AdoptionService::synced() {
  const Outcome outcome(reactor_);
  replicas_.sync_frames(outcome.callback());
  co_return co_await outcome.wait();
}

// ---- answers

void AdoptionService::answer_when_durable(const ReplyHandle& reply, const ReplicaKey& key) {
  replicas_.when_durable(key, [this, reply, key](const Status& status) {
    RC_FAILPOINT("backup.adopt.before_answer");
    const auto here = replicas_.here(key);
    if (!status.ok() || !here) {
      return reply_error(transport_, reply, status.ok() ? Status(StatusCode::kNotFound) : status);
    }
    reply_message(transport_, reply, wire::Adopted{here->length, here->epoch});
  });
}

/// Unless a replica is here, or may come, nobody finds one of this incarnation on the device.
void AdoptionService::refuse(const ReplyHandle& reply, const ReplicaKey& key, const Status& status,
                             uint32_t retry_after_us) {
  wire::ErrorDetails details;
  const bool here = replicas_.here(key).has_value() || in_progress_.contains(key);
  if (!here) details.flags = wire::ErrorDetails::kNothingWritten;
  if (status == StatusCode::kRetry && retry_after_us == 0) retry_after_us = kRetryAfterUs;
  reply_error(transport_, reply, status, retry_after_us, details);
}

}  // namespace ramcloud
