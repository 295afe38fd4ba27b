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
      timer_(reactor, [] {}),  // that it fires makes a turn
      delay_(metrics.histogram("ramcloud_parked_request_seconds",
                               "How long changes waited for the log to switch heads, which "
                               "ramcloud_operation_seconds does not include.")) {
  registry_.set_gate(&ParkedRequests::gate, this);
  reactor_.add_hook(this);
}

ParkedRequests::~ParkedRequests() {
  reactor_.remove_hook(this);
}

bool ParkedRequests::gate(void* object, const Request& request) {
  return is_change(request.header.opcode) && static_cast<ParkedRequests*>(object)->park(request);
}

bool ParkedRequests::park(const Request& request) {
  if (releasing_ || log_ == nullptr || log_->takes_data()) return false;
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

/// Every turn ends here, so one that parked looks at the log again after it said so.
bool ParkedRequests::on_turn() {
  if (parked_.empty()) return false;
  if (!log_->takes_data() && reactor_.now() - parked_.front().since < kLongest) return false;
  release();
  return true;
}

/// In the order they came; those that find the log not ready once more are answered RETRY.
void ParkedRequests::release() {
  timer_.stop();
  bytes_ = 0;
  waiting_.store(false, std::memory_order_relaxed);
  releasing_ = true;
  for (Parked& one : std::exchange(parked_, {})) {
    const Duration waited = reactor_.now() - one.since;
    delay_.record(static_cast<uint64_t>(waited.count()));
    if (one.header.timeout_ms != 0) {
      const auto left = std::chrono::milliseconds(one.header.timeout_ms) - waited;
      if (left <= Duration::zero()) {
        // Whoever asked has stopped waiting, and must not find it changed later than that.
        reply_error(registry_.transport(), one.handle,
                    {StatusCode::kRetry, "it waited longer than its caller"});
        continue;
      }
      one.header.timeout_ms =
          static_cast<uint32_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
    }
    registry_.on_request(one.handle, one.header, one.body);
  }
  releasing_ = false;
}

}  // namespace ramcloud::master
