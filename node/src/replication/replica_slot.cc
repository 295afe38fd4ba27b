#include "replication/replica_slot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "wire/codec.h"

namespace ramcloud {
namespace {

/// The largest group: a value, two keys (object and tombstone) and headers; it is sent whole.
constexpr uint32_t kMaxMessageBytes =
    std::max(kMaxReplicaMessageBytes,
             wire::kMaxValueBytes + 2 * (wire::kMaxKeyBytes + 1) + log::kSegletBytes);
constexpr size_t kMaxSlices = 2 + kMaxMessageBytes / log::kSegletBytes + 2;
constexpr size_t kMaxExtensionBytes = 64 + wire::kMaxHolders * sizeof(uint64_t);
static_assert(kMaxMessageBytes + sizeof(wire::ReplicaOpenRequest) + kMaxExtensionBytes <=
              wire::kMaxBodyBytes);

uint32_t to_ms(Duration d) {
  return static_cast<uint32_t>(std::chrono::ceil<std::chrono::milliseconds>(d).count());
}

}  // namespace

/// The only function that changes the state.
void ReplicaSlot::happened(ReplicaEvent event, Acked acked) {
  const auto next = after(state_, event, acked);
  if (!next) {
    fatal("replication.impossible_event", {{"segment", segment_->id()},
                                           {"server", server_id_},
                                           {"phase", name_of(state_.phase)},
                                           {"event", name_of(event)}});
  }
  if (state_.optional && !next->optional && next->placed()) {
    RC_SOMETIMES("replication.degraded_segment_gets_its_replica_back");
  }
  if (state_.phase == ReplicaPhase::kCopying && next->phase > ReplicaPhase::kCopying) {
    RC_SOMETIMES("replication.recreation_becomes_visible");
  }
  state_ = *next;
}

void ReplicaSlot::placement_failed(bool overdue) {
  happened(ReplicaEvent::kPlacementFailed);
  if (overdue && !state_.optional) {
    RC_SOMETIMES("replication.segment_goes_on_degraded");
    happened(ReplicaEvent::kPlacementOverdue);
  }
}

void ReplicaSlot::place(uint64_t server_id, Locator locator, std::string failure_domain) {
  happened(ReplicaEvent::kPlaced);
  put_on(server_id, std::move(locator), std::move(failure_domain));
}

void ReplicaSlot::ask_to_adopt(uint64_t server_id, Locator locator, std::string failure_domain,
                               uint64_t number) {
  happened(ReplicaEvent::kAdoptionAsked);
  put_on(server_id, std::move(locator), std::move(failure_domain));
  adoption_number_ = number;
}

void ReplicaSlot::put_on(uint64_t server_id, Locator locator, std::string failure_domain) {
  server_id_ = server_id;
  locator_ = std::move(locator);
  failure_domain_ = std::move(failure_domain);
  failures_ = 0;
  not_before_ = Time{};
}

void ReplicaSlot::unplace(ReplicaEvent why) {
  drop_call();
  first_reactor_call_.set_session(nullptr);
  happened(why);
  told_holders_ = {};
  may_end_log_ = false;
  server_id_ = 0;
  locator_ = {};
  failure_domain_.clear();
}

uint32_t ReplicaSlot::send(ReplicaCall& call, uint64_t list_version, Time now, Duration timeout) {
  if (state_.opening()) return send_open(call, list_version, now, timeout);
  return send_write(call, /*only_bytes=*/false, now, timeout);
}

void ReplicaSlot::send_plain(ReplicaCall& call, Time now, Duration timeout) {
  (void)send_write(call, /*only_bytes=*/true, now, timeout);
}

/// The holders that the backup does not know yet; empty if there are none, or if the backup cannot
/// read them. A peer of protocol version 1 cannot. The version of a backup that is not connected is
/// unknown, so it is told with the next message.
std::string ReplicaSlot::extension_for(const ReplicaCall& call) {
  telling_holders_ = told_holders_;
  const uint16_t version = call.session()->version();
  if (told_holders_ == holders_ || closed() || version == 0) return {};
  telling_holders_ = holders_;
  if (version < wire::kExtensible) return {};
  wire::ReplicaExtension extension;
  extension.holders.assign(holders_.all().begin(), holders_.all().end());
  return wire::encode(extension, wire::kExtensible);
}

uint32_t ReplicaSlot::send_open(ReplicaCall& call, uint64_t list_version, Time now,
                                Duration timeout) {
  const SegmentView there = view();
  uint32_t end = segment_->chunk_end(0, kMaxReplicaMessageBytes);
  const bool copy = state_.phase == ReplicaPhase::kOpeningCopy || there.side || there.closed ||
                    end < there.published;
  if (copy) end = segment_->chunk_end(0, kMaxCopyMessageBytes);
  wire::ReplicaOpenRequest open{};
  open.master_id = segment_->identity().master_id;
  open.segment_id = segment_->id();
  open.epoch = segment_->replication_epoch();
  open.flags = (primary_ ? wire::ReplicaOpenRequest::kPrimary : 0u) |
               (copy ? wire::ReplicaOpenRequest::kRecreation : 0u);
  open.capacity = log::kSegmentBytes;
  open.length = end;
  open.list_version = list_version;
  const std::string extension = extension_for(call);
  if (!extension.empty()) open.flags |= wire::kExtended;
  happened(copy ? ReplicaEvent::kCopyOpenSent : ReplicaEvent::kWholeOpenSent);
  if (!copy) may_end_log_ = true;
  send_bytes(call, wire::Opcode::kReplicaOpen, bytes_of(open), extension, 0,
             {.to = end, .epoch = open.epoch, .opening = true}, now, timeout);
  return end;
}

uint32_t ReplicaSlot::send_write(ReplicaCall& call, bool only_bytes, Time now, Duration timeout) {
  const SegmentView there = view();
  const bool copying = state_.phase == ReplicaPhase::kCopying;
  const uint32_t most = copying ? kMaxCopyMessageBytes : kMaxReplicaMessageBytes;
  // A closed replica may be longer than the segment in memory, if that was compacted since.
  const uint32_t end = closed() ? acked() : segment_->chunk_end(acked(), most);
  ReplicaMessage message = write_up_to(end, state_, there, only_bytes);
  // A plain write never carries holders: it has no extension.
  telling_holders_ = told_holders_;
  const std::string extension = only_bytes ? std::string() : extension_for(call);
  if (!extension.empty()) message.plain = false;
  wire::ReplicaWriteRequest write{};
  write.master_id = segment_->identity().master_id;
  write.segment_id = segment_->id();
  write.epoch = message.epoch;
  write.offset = acked();
  write.length = end - acked();
  write.flags = (message.closing && !closed() ? wire::ReplicaWriteRequest::kClose : 0u) |
                (message.completing ? wire::ReplicaWriteRequest::kWriteComplete : 0u) |
                (extension.empty() ? 0u : wire::kExtended);
  happened(sent(message));
  if (message.completing && !message.closing) may_end_log_ = true;
  send_bytes(call, wire::Opcode::kReplicaWrite, bytes_of(write), extension, acked(), message, now,
             timeout);
  return write.length;
}

void ReplicaSlot::send_bytes(ReplicaCall& call, wire::Opcode opcode, ByteView head,
                             ByteView extension, uint32_t from, const ReplicaMessage& message,
                             Time now, Duration timeout) {
  std::array<Slice, kMaxSlices> slices;
  if (message.to - from > kMaxMessageBytes) {
    fatal("replication.group_too_large",
          {{"segment", segment_->id()}, {"offset", from}, {"bytes", message.to - from}});
  }
  size_t count = 0;
  slices[count++] = Slice(head);
  if (!extension.empty()) slices[count++] = Slice(extension);
  if (message.to > from) {
    count += static_cast<size_t>(segment_->slices(from, message.to - from, slices.data() + count));
  }
  wire::MessageHeader header{};
  header.opcode = static_cast<uint16_t>(opcode);
  header.timeout_ms = to_ms(timeout);
  call_ = &call;
  RC_FAILPOINT("replication.message.before_send");
  call.begin(*this, message, header, {slices.data(), count}, now + timeout);
}

void ReplicaSlot::drop_call() {
  ReplicaCall* call = std::exchange(call_, nullptr);
  if (call == nullptr) return;
  happened(ReplicaEvent::kOutcomeUnknown);
  if (call == &first_reactor_call_) {
    call->retract();  // only the first reactor drops calls, so it may retract its own
  } else {
    call->let_go();
  }
}

ReplicaSlot::Answer ReplicaSlot::take_answer() {
  ReplicaCall& call = *std::exchange(call_, nullptr);
  Answer answer{call.status(), call.retry_after_us()};
  if (answer.status.ok()) {
    const ReplicaMessage& message = call.message();
    failures_ = 0;
    told_holders_ = telling_holders_;
    happened(acknowledged(message), {message.to, message.epoch});
    if (closed()) may_end_log_ = false;
  } else if ((call.details().flags & wire::ErrorDetails::kNothingWritten) == 0) {
    happened(ReplicaEvent::kOutcomeUnknown);
  } else if (!state_.opened() && !state_.may_exist) {
    may_end_log_ = false;
  }
  call.finish();
  return answer;
}

}  // namespace ramcloud
