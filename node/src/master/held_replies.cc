#include "master/held_replies.h"

#include <algorithm>
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
      without_lease_(metrics.counter("ramcloud_replies_without_lease_total",
                                     "Replies that waited because the master's lease had ended: a "
                                     "backup of its head, or the coordinator, did not answer.")),
      delay_(metrics.histogram("ramcloud_held_reply_seconds",
                               "How long replies waited for the log to be durable, or for a "
                               "lease.")) {
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

/// The lease's clock is read after the operation was carried out: if the lease holds at that time,
/// no other server can have changed the data in the reply, even if its bytes leave later.
HeldReplies::Waits HeldReplies::send_at_once(Reply& reply) {
  if (log_ != nullptr && reply.depends_on > log_->durable()) {
    RC_SOMETIMES("master.reply_is_held");
    reactor_.trace_event("reply held until durable", reply.handle.call_id, reply.handle.opcode);
    held_.add_from_one_thread();
    return Waits::kForLog;
  }
  RC_FAILPOINT("master.reply.before_send");
  const Time lease_now = reactor_.clock().lease_now();
  if (needs_lease(reply) && !lease_->holds(lease_now)) {
    held_.add_from_one_thread();
    return Waits::kForLease;
  }
  sent_at_once_.add_from_one_thread();
  transmit(reply, reactor_.now(), lease_now);
  return Waits::kForNothing;
}

Reply& HeldReplies::hold(Waits waits) {
  if (size() == 0) waiting_.store(true, std::memory_order_seq_cst);
  if (waits == Waits::kForLog) return for_log_.push();
  RC_SOMETIMES("master.reply_waits_for_a_lease");
  without_lease_.add_from_one_thread();
  return for_lease_.push();
}

void HeldReplies::keep(Reply& kept) {
  kept.held_since = reactor_.now();
  if (kept.entry_size > 0) kept.pin = log_->pin(kept.entry);
  transport_.charge(kept.handle, static_cast<int64_t>(sizeof(Reply) + kept.owned.capacity()));
  if (!sweep_timer_.running()) sweep_timer_.start_after(kSweepInterval);
}

void HeldReplies::send(Reply& reply) {
  const Waits waits = send_at_once(reply);
  if (waits == Waits::kForNothing) return;
  Reply& kept = hold(waits);
  kept = reply;
  keep(kept);
}

void HeldReplies::send(Reply&& reply) {
  const Waits waits = send_at_once(reply);
  if (waits == Waits::kForNothing) return;
  Reply& kept = hold(waits);
  kept = std::move(reply);
  keep(kept);
}

/// Frees the memory that the reply owned, if it did not go to the transport, because the slot is
/// reused. (Assigning an empty string would keep the memory.)
void HeldReplies::let_go(Reply& held) {
  std::string().swap(held.owned);
  held.pin.release();
}

bool HeldReplies::on_turn() {
  if (size() == 0) return false;
  if (transport_.closed_connections() != closed_seen_) begin_sweep();
  const bool swept = for_log_.sweeping() || for_lease_.sweeping();
  if (swept) sweep();
  const bool released = release_durable();
  return release_leased() || released || swept;
}

/// Sends durable replies. A reply that needs a lease waits for it even if it is durable: durability
/// does not prove that no other server changed the data.
bool HeldReplies::release_durable() {
  if (for_log_.empty()) return false;
  const log::LogPosition durable = log_->durable();
  if (for_log_.front().depends_on > durable) return false;
  const ReplyBatch batch(transport_);
  const Time lease_now = reactor_.clock().lease_now();
  do {
    Reply& reply = for_log_.front();
    if (needs_lease(reply) && !lease_->holds(lease_now)) {
      hold(Waits::kForLease) = std::move(reply);
    } else {
      leave(reply, lease_now);
    }
    for_log_.pop();
  } while (!for_log_.empty() && for_log_.front().depends_on <= durable &&
           !reactor_.budget().spent());
  say_whether_any_wait();
  return true;
}

bool HeldReplies::release_leased() {
  if (for_lease_.empty()) return false;
  lease_->wait();
  const Time lease_now = reactor_.clock().lease_now();
  if (!lease_->holds(lease_now)) return false;
  const ReplyBatch batch(transport_);
  do {
    leave(for_lease_.front(), lease_now);
    for_lease_.pop();
  } while (!for_lease_.empty() && !reactor_.budget().spent());
  say_whether_any_wait();
  return true;
}

void HeldReplies::leave(Reply& held, Time lease_now) {
  delay_.record_from_one_thread(static_cast<uint64_t>((reactor_.now() - held.held_since).count()));
  const auto charged = static_cast<int64_t>(sizeof(Reply) + held.owned.capacity());
  RC_FAILPOINT("master.reply.before_send");
  transmit(held, held.held_since, lease_now);
  transport_.charge(held.handle, -charged);
  let_go(held);
}

void HeldReplies::drop_all() {
  for (HeldQueue* queue : {&for_log_, &for_lease_}) {
    while (!queue->empty()) {
      Reply& reply = queue->front();
      transport_.charge(reply.handle,
                        -static_cast<int64_t>(sizeof(Reply) + reply.owned.capacity()));
      let_go(reply);
      queue->pop();
    }
  }
  say_whether_any_wait();
}

void HeldReplies::say_whether_any_wait() {
  if (size() == 0) waiting_.store(false, std::memory_order_relaxed);
}

void HeldReplies::begin_sweep() {
  if (size() == 0) return;
  sweep_timer_.start_after(kSweepInterval);
  if (for_log_.sweeping() || for_lease_.sweeping()) return;
  closed_seen_ = transport_.closed_connections();
  for_log_.begin_sweep();
  for_lease_.begin_sweep();
}

void HeldReplies::sweep() {
  const auto drop = [this](Reply& held) { return drop_if_nobody_waits(held); };
  const size_t looked = for_log_.sweep(kSweptPerTurn, drop);
  for_lease_.sweep(kSweptPerTurn - looked, drop);
  say_whether_any_wait();
}

bool HeldReplies::drop_if_nobody_waits(Reply& held) {
  const bool open = transport_.is_open(held.handle);
  const uint16_t timeout_s = held.handle.timeout_s;
  const bool late =
      timeout_s != 0 && reactor_.now() - held.held_since >= std::chrono::seconds(timeout_s);
  if (open && !late) return false;
  RC_SOMETIMES("master.held_reply_is_dropped");
  dropped_.add_from_one_thread();
  const auto charged = static_cast<int64_t>(sizeof(Reply) + held.owned.capacity());
  if (open) {
    // Send an answer although nobody waits: the connection counts its unanswered requests.
    const wire::ErrorBody nobody_waits{};
    const Slice slice(bytes_of(nobody_waits));
    transport_.reply(held.handle, StatusCode::kDeadlineExceeded, {&slice, 1});
  }
  transport_.charge(held.handle, -charged);
  let_go(held);
  return true;
}

void HeldReplies::transmit(Reply& reply, Time arrived, Time lease_now) {
  std::array<Slice, 2 + log::kMaxEntrySlices> slices;
  size_t count = 0;
  slices[count++] = Slice(reply.fixed, reply.fixed_size);
  if (reply.entry_size > 0) {
    count += static_cast<size_t>(
        reply.entry.slices(reply.entry_offset, reply.entry_size, slices.data() + count));
  }
  if (reply.owned.empty()) {
    transport_.reply(reply.handle, reply.status, {slices.data(), count});
  } else {
    transport_.reply_owned(reply.handle, reply.status, {slices.data(), count},
                           std::move(reply.owned));
  }
  const Duration took = reactors_time(lease_now) - arrived;
  time_of(reply.handle.opcode)
      .record_from_one_thread(static_cast<uint64_t>(std::max(took, Duration{}).count()));
}

/// Converts a time of the lease clock to the reactor's clock. Reading that clock as well would cost
/// as much as a lookup. The two differ by the time that the machine was suspended.
Time HeldReplies::reactors_time(Time lease_now) {
  if (reactor_.now() >= measured_until_) {
    measured_until_ = reactor_.now() + kSweepInterval;
    lease_ahead_ =
        reactor_.clock().lease_now().time_since_epoch() - reactor_.clock().now().time_since_epoch();
  }
  return lease_now - lease_ahead_;
}

}  // namespace ramcloud::master
