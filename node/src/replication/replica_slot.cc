#include "replication/replica_slot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/logging.h"
#include "rpc/rpc.h"

namespace ramcloud {
namespace {

/// The largest group: a value, two keys (object and tombstone) and headers; it is sent whole.
constexpr uint32_t kMaxMessageBytes =
    std::max(kMaxReplicaMessageBytes,
             wire::kMaxValueBytes + 2 * (wire::kMaxKeyBytes + 1) + log::kSegletBytes);
constexpr size_t kMaxSlices = 1 + kMaxMessageBytes / log::kSegletBytes + 2;
static_assert(kMaxMessageBytes + sizeof(wire::ReplicaOpenRequest) <= wire::kMaxBodyBytes);

}  // namespace

void ReplicaSlot::place(uint64_t server_id, std::string failure_domain) {
  state_ = State::kOpening;
  server_id_ = server_id;
  failure_domain_ = std::move(failure_domain);
  recreation_ = complete_ = false;
  acked_ = acked_epoch_ = 0;
  failures_ = 0;
  not_before_ = Time{};
}

void ReplicaSlot::unplace() {
  abandon_call();
  state_ = State::kUnplaced;
  server_id_ = 0;
  failure_domain_.clear();
  session_.reset();
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

void ReplicaSlot::send(std::shared_ptr<Session> session, uint64_t list_version, Time deadline,
                       uint32_t timeout_ms) {
  session_ = std::move(session);
  deadline_ = deadline;
  if (state_ == State::kOpening) {
    send_open(list_version, timeout_ms);
  } else {
    send_write(timeout_ms);
  }
}

void ReplicaSlot::send_open(uint64_t list_version, uint32_t timeout_ms) {
  const bool closed = segment_.closed();
  const uint32_t published = segment_.published();
  const uint32_t end = segment_.chunk_end(0, kMaxReplicaMessageBytes);
  // Once it has been sent as a re-creation it stays one.
  recreation_ = recreation_ || closed || end < published;
  wire::ReplicaOpenRequest open{};
  open.master_id = segment_.identity().master_id;
  open.segment_id = segment_.id();
  open.epoch = segment_.replication_epoch();
  open.flags = (primary_ ? wire::ReplicaOpenRequest::kPrimary : 0u) |
               (recreation_ ? wire::ReplicaOpenRequest::kRecreation : 0u);
  open.capacity = log::kSegmentBytes;
  open.length = end;
  open.list_version = list_version;
  closing_ = completing_ = false;
  sending_epoch_ = open.epoch;
  send_bytes(wire::Opcode::kReplicaOpen, bytes_of(open), 0, end, timeout_ms);
}

void ReplicaSlot::send_write(uint32_t timeout_ms) {
  // In this order: once closed is seen, published() is the final length.
  const bool closed = segment_.closed();
  const uint32_t published = segment_.published();
  const uint32_t end = segment_.chunk_end(acked_, kMaxReplicaMessageBytes);
  closing_ = closed && end == published;
  completing_ = recreation_ && !complete_ && end >= published;
  wire::ReplicaWriteRequest write{};
  write.master_id = segment_.identity().master_id;
  write.segment_id = segment_.id();
  write.epoch = segment_.replication_epoch();
  write.offset = acked_;
  write.length = end - acked_;
  write.flags = (closing_ ? wire::ReplicaWriteRequest::kClose : 0u) |
                (completing_ ? wire::ReplicaWriteRequest::kWriteComplete : 0u);
  sending_epoch_ = write.epoch;
  send_bytes(wire::Opcode::kReplicaWrite, bytes_of(write), acked_, end, timeout_ms);
}

void ReplicaSlot::send_bytes(wire::Opcode opcode, ByteView head, uint32_t from, uint32_t to,
                             uint32_t timeout_ms) {
  std::array<Slice, kMaxSlices> slices;
  if (to - from > kMaxMessageBytes) {
    fatal("replication.group_too_large",
          {{"segment", segment_.id()}, {"offset", from}, {"bytes", to - from}});
  }
  slices[0] = Slice(head);
  const int count = to > from ? segment_.slices(from, to - from, slices.data() + 1) : 0;
  sending_to_ = to;
  wire::MessageHeader header{};
  header.opcode = static_cast<uint16_t>(opcode);
  header.timeout_ms = timeout_ms;
  session_->send(*this, header, {slices.data(), static_cast<size_t>(count) + 1});
}

void ReplicaSlot::abandon_call() {
  if (outstanding()) cancel();
}

void ReplicaSlot::on_reply(const wire::MessageHeader& header, ByteView body) {
  if (header.status != static_cast<uint16_t>(StatusCode::kOk)) {
    const RpcReply reply = decode_reply(header, body);
    return owner_.replica_failed(*this, reply.status, reply.retry_after_us);
  }
  if (body.size() != sizeof(wire::ReplicaReply)) {
    return owner_.replica_failed(
        *this, {StatusCode::kProtocolError, fmt::format("reply has {} bytes", body.size())}, 0);
  }
  const auto reply = load<wire::ReplicaReply>(body.data());
  if (reply.held < sending_to_) {
    return owner_.replica_failed(
        *this,
        {StatusCode::kProtocolError,
         fmt::format("backup holds {} bytes after {} were sent", reply.held, sending_to_)},
        0);
  }
  failures_ = 0;
  acked_ = std::max(acked_, sending_to_);
  acked_epoch_ = std::max(acked_epoch_, sending_epoch_);
  complete_ = complete_ || completing_;
  state_ = closing_ ? State::kClosed : State::kOpen;
  if (counts()) waived_ = false;
  owner_.replica_advanced(*this);
}

void ReplicaSlot::on_failure(const Status& status) {
  owner_.replica_failed(*this, status, 0);
}

}  // namespace ramcloud
