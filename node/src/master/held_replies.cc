#include "master/held_replies.h"

#include <array>

#include "base/failpoint.h"
#include "base/sometimes.h"
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
      sent_at_once_(metrics.counter("ramcloud_replies_total", "Replies of data operations.",
                                    {{"held", "false"}})),
      held_(metrics.counter("ramcloud_replies_total", "Replies of data operations.",
                            {{"held", "true"}})),
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
  reactor_.add_hook(this);
}

HeldReplies::~HeldReplies() {
  reactor_.remove_hook(this);
}

bool HeldReplies::send_at_once(const Reply& reply) {
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

void HeldReplies::send(const Reply& reply) {
  if (send_at_once(reply)) return;
  Reply& kept = hold();
  kept = reply;
  kept.held_since = reactor_.now();
}

void HeldReplies::send(Reply&& reply) {
  if (send_at_once(reply)) return;
  Reply& kept = hold();
  kept = std::move(reply);
  kept.held_since = reactor_.now();
}

bool HeldReplies::on_turn() {
  if (queue_.empty()) return false;
  const log::LogPosition durable = log_->durable();
  if (queue_.front().depends_on > durable) return false;
  const ReplyBatch batch(transport_);
  bool any = false;
  while (!queue_.empty() && queue_.front().depends_on <= durable) {
    delay_.record_alone(
        static_cast<uint64_t>((reactor_.now() - queue_.front().held_since).count()));
    transmit(queue_.front(), queue_.front().held_since);
    if (!queue_.front().owned.empty()) queue_.front().owned = std::string();  // give pages back
    queue_.pop();
    any = true;
  }
  if (queue_.empty()) waiting_.store(false, std::memory_order_relaxed);
  return any;
}

void HeldReplies::transmit(const Reply& reply, Time arrived) {
  std::array<Slice, 2 + log::kMaxEntrySlices> slices;
  size_t count = 0;
  slices[count++] = Slice(reply.fixed, reply.fixed_size);
  if (reply.entry_size > 0) {
    count += static_cast<size_t>(
        reply.entry.slices(reply.entry_offset, reply.entry_size, slices.data() + count));
  }
  if (!reply.owned.empty()) slices[count++] = Slice(ByteView(reply.owned));
  RC_FAILPOINT("master.reply.before_send");
  transport_.reply(reply.handle, reply.status, {slices.data(), count});
  time_of(reply.handle.opcode)
      .record_alone(static_cast<uint64_t>((reactor_.clock().now() - arrived).count()));
}

}  // namespace ramcloud::master
