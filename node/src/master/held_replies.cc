#include "master/held_replies.h"

#include <array>

#include "base/failpoint.h"
#include "base/sometimes.h"
#include "wire/data_messages.h"
#include "wire/message_header.h"

namespace ramcloud::master {
namespace {

Histogram& operation_time(MetricsRegistry& metrics, const char* operation) {
  return metrics.histogram("ramcloud_operation_seconds",
                           "Data operations, from arrival to reply, held time included.",
                           {{"op", operation}});
}

}  // namespace

HeldReplies::HeldReplies(Reactor& reactor, Transport& transport, MetricsRegistry& metrics)
    : reactor_(reactor),
      transport_(transport),
      sweep_timer_(reactor, [this] { begin_sweep(); }),
      sent_at_once_(metrics.counter("ramcloud_replies_total", "Replies of data operations.",
                                    {{"held", "false"}})),
      held_(metrics.counter("ramcloud_replies_total", "Replies of data operations.",
                            {{"held", "true"}})),
      dropped_(metrics.counter("ramcloud_held_replies_dropped_total",
                               "Replies that were held for the log and never sent: their client is "
                               "disconnected, or its deadline has passed.")),
      delay_(metrics.histogram("ramcloud_held_reply_seconds",
                               "How long replies waited for the log to be durable.")) {
  times_.fill(&operation_time(metrics, "other"));
  using wire::Opcode;
  constexpr std::pair<Opcode, const char*> kNamed[] = {{Opcode::kRead, "read"},
                                                       {Opcode::kWrite, "write"},
                                                       {Opcode::kDelete, "delete"},
                                                       {Opcode::kIncrement, "increment"},
                                                       {Opcode::kEnumerate, "enumerate"},
                                                       {Opcode::kMultiRead, "multi_read"},
                                                       {Opcode::kMultiWrite, "multi_write"},
                                                       {Opcode::kMultiDelete, "multi_delete"}};
  for (const auto& [opcode, name] : kNamed) {
    times_[static_cast<size_t>(opcode)] = &operation_time(metrics, name);
  }
}

bool HeldReplies::send_at_once(Reply& reply) {
  const bool at_once = log_ == nullptr || reply.depends_on <= log_->durable();
  (at_once ? sent_at_once_ : held_).add_alone();
  if (at_once) {
    transmit(reply, reactor_.now());
  } else {
    RC_SOMETIMES("master.reply_is_held");
    reactor_.trace_event("reply held until durable", reply.handle.call_id, reply.handle.opcode);
  }
  return at_once;
}

Reply& HeldReplies::hold() {
  if (queue_.empty()) waiting_.store(true, std::memory_order_seq_cst);
  return queue_.push();
}

void HeldReplies::keep(Reply& kept) {
  kept.held_since = reactor_.now();
  if (kept.entry_size > 0) kept.pin = log_->pin(kept.entry);
  transport_.charge(kept.handle, static_cast<int64_t>(sizeof(Reply) + kept.owned.capacity()));
  if (!sweep_timer_.running()) sweep_timer_.start_after(kSweepInterval);
}

void HeldReplies::send(Reply& reply) {
  if (send_at_once(reply)) return;
  Reply& kept = hold();
  kept = reply;
  keep(kept);
}

void HeldReplies::send(Reply&& reply) {
  if (send_at_once(reply)) return;
  Reply& kept = hold();
  kept = std::move(reply);
  keep(kept);
}

/// What it owned goes, or has gone to the transport; the slot is used again. (To assign an empty
/// string would keep the memory.)
void HeldReplies::let_go(Reply& held) {
  std::string().swap(held.owned);
  held.pin.release();
}

bool HeldReplies::on_turn() {
  if (queue_.empty()) return false;
  if (!sweeping_ && transport_.closed_connections() != closed_seen_) begin_sweep();
  const bool swept = sweeping_;
  if (swept) sweep();
  return release() || swept;
}

bool HeldReplies::release() {
  if (queue_.empty()) return false;
  const log::LogPosition durable = log_->durable();
  if (queue_.front().depends_on > durable) return false;
  const ReplyBatch batch(transport_);
  do {
    Reply& reply = queue_.front();
    delay_.record_alone(static_cast<uint64_t>((reactor_.now() - reply.held_since).count()));
    const auto charged = static_cast<int64_t>(sizeof(Reply) + reply.owned.capacity());
    transmit(reply, reply.held_since);
    transport_.charge(reply.handle, -charged);
    let_go(reply);
    pop();
  } while (!queue_.empty() && queue_.front().depends_on <= durable && !reactor_.budget().spent());
  return true;
}

/// The front goes, and with it the holes behind it.
void HeldReplies::pop() {
  queue_.pop();
  ++first_;
  while (sweeping_ && first_ >= swept_to_ && first_ < kept_from_) {
    queue_.pop();
    ++first_;
  }
  if (sweeping_ && first_ >= kept_from_) sweeping_ = false;
  if (queue_.empty()) waiting_.store(false, std::memory_order_relaxed);
}

void HeldReplies::begin_sweep() {
  if (queue_.empty()) return;
  sweep_timer_.start_after(kSweepInterval);
  if (sweeping_) return;
  closed_seen_ = transport_.closed_connections();
  sweeping_ = true;
  swept_to_ = kept_from_ = first_ + queue_.size();
}

void HeldReplies::sweep() {
  for (size_t n = 0; n < kSweptPerTurn && swept_to_ > first_; ++n) {
    Reply& reply = queue_.at(--swept_to_ - first_);
    if (drop_if_nobody_waits(reply)) continue;
    --kept_from_;
    if (kept_from_ != swept_to_) queue_.at(kept_from_ - first_) = std::move(reply);
  }
  if (swept_to_ > first_) return;
  sweeping_ = false;
  for (; first_ < kept_from_; ++first_) queue_.pop();
  if (queue_.empty()) waiting_.store(false, std::memory_order_relaxed);
}

bool HeldReplies::drop_if_nobody_waits(Reply& held) {
  const bool open = transport_.is_open(held.handle);
  const uint16_t timeout_s = held.handle.timeout_s;
  const bool late =
      timeout_s != 0 && reactor_.now() - held.held_since >= std::chrono::seconds(timeout_s);
  if (open && !late) return false;
  RC_SOMETIMES("master.held_reply_is_dropped");
  dropped_.add_alone();
  const auto charged = static_cast<int64_t>(sizeof(Reply) + held.owned.capacity());
  if (open) {
    // The connection counts its unanswered requests.
    const wire::ErrorBody nobody_waits{};
    const Slice slice(bytes_of(nobody_waits));
    transport_.reply(held.handle, StatusCode::kDeadlineExceeded, {&slice, 1});
  }
  transport_.charge(held.handle, -charged);
  let_go(held);
  return true;
}

void HeldReplies::transmit(Reply& reply, Time arrived) {
  std::array<Slice, 2 + log::kMaxEntrySlices> slices;
  size_t count = 0;
  slices[count++] = Slice(reply.fixed, reply.fixed_size);
  if (reply.entry_size > 0) {
    count += static_cast<size_t>(
        reply.entry.slices(reply.entry_offset, reply.entry_size, slices.data() + count));
  }
  RC_FAILPOINT("master.reply.before_send");
  if (reply.owned.empty()) {
    transport_.reply(reply.handle, reply.status, {slices.data(), count});
  } else {
    transport_.reply_owned(reply.handle, reply.status, {slices.data(), count},
                           std::move(reply.owned));
  }
  time_of(reply.handle.opcode)
      .record_alone(static_cast<uint64_t>((reactor_.clock().now() - arrived).count()));
}

}  // namespace ramcloud::master
