#include "master/parked_requests.h"

#include <utility>

#include "base/sometimes.h"

namespace ramcloud::master {
namespace {

bool is_change(uint16_t opcode) {
  switch (static_cast<wire::Opcode>(opcode)) {
    case wire::Opcode::kWrite:
    case wire::Opcode::kDelete:
    case wire::Opcode::kIncrement:
    case wire::Opcode::kMultiWrite:
    case wire::Opcode::kMultiDelete:
      return true;
    default:
      return false;
  }
}

}  // namespace

ParkedRequests::ParkedRequests(Reactor& reactor, ServiceRegistry& registry,
                               MetricsRegistry& metrics)
    : reactor_(reactor),
      registry_(registry),
      timer_(reactor, [] {}),  // its only effect is to start a turn
      delay_(metrics.histogram("ramcloud_parked_request_seconds",
                               "How long changes waited for the log to switch heads, which "
                               "ramcloud_operation_seconds does not include.")) {
  registry_.set_gate(&ParkedRequests::gate, this);
}

bool ParkedRequests::gate(void* object, const Request& request) {
  return is_change(request.header.opcode) && static_cast<ParkedRequests*>(object)->park(request);
}

/// Requests queue after those that wait already, so that all keep their order.
bool ParkedRequests::park(const Request& request) {
  if (serving_ != Serving::kNone || log_ == nullptr) return false;
  if (parked_.empty() && log_->takes_data()) return false;
  const uint64_t bytes = sizeof(Parked) + request.body.size();
  if (bytes_ + bytes > kMaxBytes) return false;
  if (parked_.empty()) {
    waiting_.store(true, std::memory_order_seq_cst);
    timer_.start_after(kLongest);
  }
  RC_SOMETIMES("master.change_waits_for_the_next_head");
  bytes_ += bytes;
  parked_.push_back({request.reply, request.header, std::string(request.body), reactor_.now()});
  return true;
}

bool ParkedRequests::wait_for_head(const Request& request) {
  if (serving_ == Serving::kNone) {
    if (!park(request)) return false;
    RC_SOMETIMES("master.the_change_that_begins_a_head_switch_waits");
    return true;
  }
  // The requests before this one filled the new head.
  if (serving_ == Serving::kLate || log_->takes_data()) return false;
  RC_SOMETIMES("master.change_waits_for_another_head");
  serving_ = Serving::kWaits;
  return true;
}

/// Every turn ends with this step, so a reactor that parked a request checks the log again after it
/// set the flag.
bool ParkedRequests::on_turn() {
  if (parked_.empty() || !(log_->takes_data() || is_late(parked_.front()))) return false;
  release();
  return true;
}

void ParkedRequests::release() {
  TurnBudget& budget = reactor_.budget();
  do {
    Parked one = std::move(parked_.front());
    parked_.pop_front();
    bytes_ -= sizeof(Parked) + one.body.size();
    budget.spend(TurnBudget::kRequest + TurnBudget::of_bytes(one.body.size()));
    serve(std::move(one));
  } while (!parked_.empty() && (log_->takes_data() || is_late(parked_.front())) && !budget.spent());
  if (parked_.empty()) {
    timer_.stop();
    waiting_.store(false, std::memory_order_relaxed);
  } else {
    timer_.start_at(parked_.front().since + kLongest);
  }
}

void ParkedRequests::serve(Parked one) {
  const Duration waited = reactor_.now() - one.since;
  wire::MessageHeader header = one.header;
  if (header.timeout_ms != 0) {
    const auto left = std::chrono::milliseconds(header.timeout_ms) - waited;
    if (left <= Duration::zero()) {
      // The client has stopped waiting, and an object must not change after that.
      return reply_error(
          registry_.transport(), one.handle,
          {StatusCode::kRetry, "the deadline of the request passed while it waited"});
    }
    header.timeout_ms =
        static_cast<uint32_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  }
  serving_ = is_late(one) ? Serving::kLate : Serving::kOnTime;
  registry_.on_request(one.handle, header, one.body);
  const bool waits = std::exchange(serving_, Serving::kNone) == Serving::kWaits;
  if (!waits) return delay_.record(static_cast<uint64_t>(waited.count()));
  bytes_ += sizeof(Parked) + one.body.size();
  parked_.push_front(std::move(one));
}

}  // namespace ramcloud::master
