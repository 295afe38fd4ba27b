#include "replication/replica_call.h"

#include <fmt/format.h>

#include "rpc/rpc.h"
#include "wire/replica_messages.h"

namespace ramcloud {

void ReplicaCall::begin(ReplicaSlot& slot, const ReplicaMessage& message,
                        const wire::MessageHeader& header, std::span<const Slice> body,
                        Time deadline) {
  slot_ = &slot;
  message_ = message;
  deadline_ = deadline;
  sent_ = inbox_.lease_now();
  state_.store(State::kInFlight, std::memory_order_release);
  session_->send(*this, header, body);
}

void ReplicaCall::retract() {
  if (outstanding()) cancel();
  finish();
}

void ReplicaCall::give_up(Status why) {
  if (outstanding()) cancel();
  note(std::move(why));
}

void ReplicaCall::note(Status status, uint32_t retry_after_us, wire::ErrorDetails details) {
  status_ = std::move(status);
  retry_after_us_ = retry_after_us;
  details_ = std::move(details);
  state_.store(State::kAnswered, std::memory_order_release);
  inbox_.answered().push_back(this);
}

void ReplicaCall::on_reply(const wire::MessageHeader& header, ByteView body) {
  if (header.status != static_cast<uint16_t>(StatusCode::kOk)) {
    RpcReply reply = decode_reply(header, body);
    return note(std::move(reply.status), reply.retry_after_us, std::move(reply.details));
  }
  if (body.size() != sizeof(wire::ReplicaReply)) {
    return note({StatusCode::kProtocolError, fmt::format("reply has {} bytes", body.size())});
  }
  const auto reply = load<wire::ReplicaReply>(body.data());
  if (reply.bytes_held < message_.to) {
    return note(
        {StatusCode::kProtocolError,
         fmt::format("the backup has {} bytes after {} were sent", reply.bytes_held, message_.to)});
  }
  note({});
}

void ReplicaCall::on_failure(const Status& status) {
  note(status);
}

}  // namespace ramcloud
