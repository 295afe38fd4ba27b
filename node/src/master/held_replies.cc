#include "master/held_replies.h"

#include <array>

namespace ramcloud::master {

HeldReplies::HeldReplies(Reactor& reactor, Transport& transport, MetricsRegistry& metrics)
    : reactor_(reactor),
      transport_(transport),
      sent_at_once_(metrics.counter("ramcloud_replies_total", "Replies of data operations.",
                                    {{"held", "false"}})),
      held_(metrics.counter("ramcloud_replies_total", "Replies of data operations.",
                            {{"held", "true"}})),
      delay_(metrics.histogram("ramcloud_held_reply_seconds",
                               "How long replies waited for the log to be durable.")) {
  reactor_.add_hook(this);
}

HeldReplies::~HeldReplies() {
  reactor_.remove_hook(this);
}

bool HeldReplies::send_at_once(const Reply& reply) {
  const bool at_once = queue_.empty() && (log_ == nullptr || reply.depends_on <= log_->durable());
  (at_once ? sent_at_once_ : held_).add();
  if (at_once) transmit(reply);
  return at_once;
}

void HeldReplies::send(const Reply& reply) {
  if (send_at_once(reply)) return;
  Reply& kept = queue_.push();
  kept = reply;
  kept.held_since = reactor_.now();
}

void HeldReplies::send(Reply&& reply) {
  if (send_at_once(reply)) return;
  Reply& kept = queue_.push();
  kept = std::move(reply);
  kept.held_since = reactor_.now();
}

bool HeldReplies::on_turn() {
  if (queue_.empty()) return false;
  const log::LogPosition durable = log_->durable();
  bool any = false;
  while (!queue_.empty() && queue_.front().depends_on <= durable) {
    delay_.record(static_cast<uint64_t>((reactor_.now() - queue_.front().held_since).count()));
    transmit(queue_.front());
    if (!queue_.front().owned.empty()) queue_.front().owned = std::string();  // give pages back
    queue_.pop();
    any = true;
  }
  return any;
}

void HeldReplies::transmit(const Reply& reply) {
  std::array<Slice, 2 + log::kMaxEntrySlices> slices;
  size_t count = 0;
  slices[count++] = Slice(reply.fixed, reply.fixed_size);
  if (reply.entry_size > 0) {
    count += static_cast<size_t>(
        reply.entry.slices(reply.entry_offset, reply.entry_size, slices.data() + count));
  }
  if (!reply.owned.empty()) slices[count++] = Slice(ByteView(reply.owned));
  transport_.reply(reply.handle, reply.status, {slices.data(), count});
}

}  // namespace ramcloud::master
