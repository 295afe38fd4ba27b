#include "replication/replica_slot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud {
namespace {

/// The largest group: a value, two keys (object and tombstone) and headers; it is sent whole.
constexpr uint32_t kMaxMessageBytes =
    std::max(kMaxReplicaMessageBytes,
             wire::kMaxValueBytes + 2 * (wire::kMaxKeyBytes + 1) + log::kSegletBytes);
constexpr size_t kMaxSlices = 1 + kMaxMessageBytes / log::kSegletBytes + 2;
static_assert(kMaxMessageBytes + sizeof(wire::ReplicaOpenRequest) <= wire::kMaxBodyBytes);

uint32_t to_ms(Duration d) {
  return static_cast<uint32_t>(std::chrono::ceil<std::chrono::milliseconds>(d).count());
}

}  // namespace

void ReplicaSlot::place(uint64_t server_id, Locator locator, std::string failure_domain) {
  state_ = State::kOpening;
  server_id_ = server_id;
  locator_ = std::move(locator);
  failure_domain_ = std::move(failure_domain);
  recreation_ = complete_ = may_be_there_ = false;
  was_waived_ = waived_;
  acked_ = acked_epoch_ = 0;
  failures_ = 0;
  not_before_ = Time{};
}

void ReplicaSlot::unplace() {
  drop_call();
  own_.set_session(nullptr);
  state_ = State::kUnplaced;
  server_id_ = 0;
  locator_ = {};
  failure_domain_.clear();
  recreation_ = complete_ = waived_ = false;
  acked_ = acked_epoch_ = 0;
}

bool ReplicaSlot::wants_to_send() const {
  switch (state_) {
    case State::kUnplaced:
    case State::kClosed:
      return false;
    case State::kOpening:
      return true;
    case State::kOpen:
      return segment_.closed() || acked_ < segment_.published() || !counts();
  }
  return false;
}

uint32_t ReplicaSlot::send(ReplicaCall& call, uint64_t list_version, Time now, Duration timeout) {
  if (state_ == State::kOpening) return send_open(call, list_version, now, timeout);
  return send_write(call, /*plain=*/false, now, timeout);
}

void ReplicaSlot::send_plain(ReplicaCall& call, Time now, Duration timeout) {
  (void)send_write(call, /*plain=*/true, now, timeout);
}

uint32_t ReplicaSlot::send_open(ReplicaCall& call, uint64_t list_version, Time now,
                                Duration timeout) {
  const bool closed = segment_.closed();
  const uint32_t published = segment_.published();
  uint32_t end = segment_.chunk_end(0, kMaxReplicaMessageBytes);
  // Once it has been sent as a re-creation it stays one.
  recreation_ = recreation_ || closed || end < published;
  if (recreation_) end = segment_.chunk_end(0, kMaxCopyMessageBytes);
  wire::ReplicaOpenRequest open{};
  open.master_id = segment_.identity().master_id;
  open.segment_id = segment_.id();
  open.epoch = segment_.replication_epoch();
  open.flags = (primary_ ? wire::ReplicaOpenRequest::kPrimary : 0u) |
               (recreation_ ? wire::ReplicaOpenRequest::kRecreation : 0u);
  open.capacity = log::kSegmentBytes;
  open.length = end;
  open.list_version = list_version;
  if (!recreation_) end_waiver();
  send_bytes(call, wire::Opcode::kReplicaOpen, bytes_of(open), 0, {.to = end, .epoch = open.epoch},
             now, timeout);
  return end;
}

uint32_t ReplicaSlot::send_write(ReplicaCall& call, bool plain, Time now, Duration timeout) {
  // In this order: once closed is seen, published() is the final length.
  const bool closed = segment_.closed();
  const uint32_t published = segment_.published();
  const uint32_t most = recreation_ && !complete_ ? kMaxCopyMessageBytes : kMaxReplicaMessageBytes;
  const uint32_t end = segment_.chunk_end(acked_, most);
  // Of a closed one nothing is to be changed: that it is there is asked
  // (ReplicaManager::look_after).
  const bool asks = state_ == State::kClosed;
  ReplicaCall::Content content{.to = end,
                               .epoch = asks ? acked_epoch_ : segment_.replication_epoch()};
  content.closing = !plain && closed && end == published;
  content.completing = recreation_ && !complete_ && end >= published;
  content.plain = !content.closing && !content.completing && content.epoch == acked_epoch_;
  wire::ReplicaWriteRequest write{};
  write.master_id = segment_.identity().master_id;
  write.segment_id = segment_.id();
  write.epoch = content.epoch;
  write.offset = acked_;
  write.length = end - acked_;
  write.flags = (content.closing && !asks ? wire::ReplicaWriteRequest::kClose : 0u) |
                (content.completing ? wire::ReplicaWriteRequest::kWriteComplete : 0u);
  if (content.completing) end_waiver();
  send_bytes(call, wire::Opcode::kReplicaWrite, bytes_of(write), acked_, content, now, timeout);
  return end - write.offset;
}

/// With what is sent now the backup has everything that is published, and recovery would take its
/// replica for whole. So from here on nothing becomes durable without it: else it would lack what
/// did while this was on its way.
void ReplicaSlot::end_waiver() {
  if (waived_) RC_SOMETIMES("replication.degraded_segment_gets_its_replica_back");
  waived_ = false;
}

void ReplicaSlot::send_bytes(ReplicaCall& call, wire::Opcode opcode, ByteView head, uint32_t from,
                             const ReplicaCall::Content& content, Time now, Duration timeout) {
  std::array<Slice, kMaxSlices> slices;
  if (content.to - from > kMaxMessageBytes) {
    fatal("replication.group_too_large",
          {{"segment", segment_.id()}, {"offset", from}, {"bytes", content.to - from}});
  }
  slices[0] = Slice(head);
  const int count =
      content.to > from ? segment_.slices(from, content.to - from, slices.data() + 1) : 0;
  wire::MessageHeader header{};
  header.opcode = static_cast<uint16_t>(opcode);
  header.timeout_ms = to_ms(timeout);
  call_ = &call;
  RC_FAILPOINT("replication.message.before_send");
  call.begin(*this, content, header, {slices.data(), static_cast<size_t>(count) + 1},
             now + timeout);
}

void ReplicaSlot::drop_call() {
  ReplicaCall* call = std::exchange(call_, nullptr);
  if (call == nullptr) return;
  may_be_there_ = true;
  call->let_go();
  call->owner().call_dropped(*call);
}

Status ReplicaSlot::take_answer(uint32_t& retry_after_us) {
  ReplicaCall& call = *std::exchange(call_, nullptr);
  retry_after_us = call.retry_after_us();
  Status status = call.status();
  if (status.ok()) {
    const ReplicaCall::Content& content = call.content();
    failures_ = 0;
    acked_ = std::max(acked_, content.to);
    acked_epoch_ = std::max(acked_epoch_, content.epoch);
    if (content.completing && !complete_) RC_SOMETIMES("replication.recreation_becomes_visible");
    complete_ = complete_ || content.completing;
    state_ = content.closing ? State::kClosed : State::kOpen;
  }
  if (status.ok() || (call.details().flags & wire::ErrorDetails::kNothingWritten) == 0) {
    may_be_there_ = true;
  }
  call.finish();
  return status;
}

}  // namespace ramcloud
