#include "transport/transport.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/logging.h"

namespace ramcloud {

// ---- ClientCall

ClientCall::~ClientCall() {
  cancel();
}

void ClientCall::cancel() {
  if (session_ != nullptr) session_->take_call(call_id_);
}

// ---- Transport

void Transport::reply_owned(const ReplyHandle& handle, StatusCode status,
                            std::span<const Slice> body, std::string&& tail) {
  constexpr size_t kMostSlices = 32;
  if (body.size() >= kMostSlices) fatal("reply of too many pieces", {{"pieces", body.size()}});
  std::array<Slice, kMostSlices> all;
  std::ranges::copy(body, all.begin());
  all[body.size()] = Slice(ByteView(tail));
  reply(handle, status, {all.data(), body.size() + 1});
}

// ---- CallTable

/// A hash table with linear probing. Ids are consecutive, so their low bits are the hash. It grows
/// to the largest number of outstanding calls and never shrinks: no allocation in steady state.
struct Session::CallTable {
  std::vector<ClientCall*> slots = std::vector<ClientCall*>(16);
  size_t used = 0;

  size_t home(uint64_t id) const { return id & (slots.size() - 1); }
  size_t next(size_t i) const { return (i + 1) & (slots.size() - 1); }

  void insert(ClientCall& call) {
    if ((used + 1) * 2 > slots.size()) grow();
    place(call);
    ++used;
  }

  ClientCall* take(uint64_t id) {
    size_t i = home(id);
    while (slots[i] != nullptr && slots[i]->call_id_ != id) i = next(i);
    ClientCall* found = slots[i];
    if (found == nullptr) return nullptr;
    --used;
    close_gap(i);
    return found;
  }

 private:
  void place(ClientCall& call) {
    size_t i = home(call.call_id_);
    while (slots[i] != nullptr) i = next(i);
    slots[i] = &call;
  }
  /// Moves later entries of the cluster back, so that no probe ends early at the gap.
  void close_gap(size_t gap) {
    slots[gap] = nullptr;
    for (size_t i = next(gap); slots[i] != nullptr; i = next(i)) {
      const size_t from_home = (i - home(slots[i]->call_id_)) & (slots.size() - 1);
      const size_t from_gap = (i - gap) & (slots.size() - 1);
      if (from_home < from_gap) continue;
      slots[gap] = slots[i];
      slots[i] = nullptr;
      gap = i;
    }
  }
  void grow() {
    std::vector<ClientCall*> old(slots.size() * 2);
    old.swap(slots);
    for (ClientCall* call : old) {
      if (call != nullptr) place(*call);
    }
  }
};

// ---- Session

Session::Session() : calls_(std::make_unique<CallTable>()) {}

Session::~Session() {
  for (ClientCall* call = first_; call != nullptr; call = call->next_) call->session_ = nullptr;
}

uint64_t Session::add_call(ClientCall& call, uint64_t mark) {
  call.cancel();  // if a call is sent again, its first answer is dropped
  call.session_ = this;
  call.call_id_ = ++last_call_id_;
  call.mark_ = mark;
  call.previous_ = last_;
  call.next_ = nullptr;
  (last_ != nullptr ? last_->next_ : first_) = &call;
  last_ = &call;
  calls_->insert(call);
  return call.call_id_;
}

ClientCall* Session::take_call(uint64_t call_id) {
  ClientCall* call = calls_->take(call_id);
  if (call == nullptr) return nullptr;
  (call->previous_ != nullptr ? call->previous_->next_ : first_) = call->next_;
  (call->next_ != nullptr ? call->next_->previous_ : last_) = call->previous_;
  call->session_ = nullptr;
  call->previous_ = call->next_ = nullptr;
  return call;
}

void Session::when_open(ClientCall& call) {
  add_call(call, kWaitsForOpen);
}

void Session::tell_open() {
  // A callback may do anything to the list: look from the start again after each.
  const auto find = [this] {
    ClientCall* call = first_;
    while (call != nullptr && call->mark_ != kWaitsForOpen) call = call->next_;
    return call;
  };
  while (ClientCall* call = find()) {
    take_call(call->call_id_);
    call->on_open();
  }
}

void Session::fail_calls(uint64_t sent_up_to, const Status& sent, const Status& unsent) {
  const uint64_t last = last_call_id_;
  while (first_ != nullptr && first_->call_id_ <= last) {
    ClientCall& call = *first_;
    const bool was_sent = call.mark_ <= sent_up_to;
    take_call(call.call_id_);
    call.on_failure(was_sent ? sent : unsent);
  }
}

void Session::fail_refused() {
  // A callback may do anything to the list: look from the start again after each.
  const auto find = [this] {
    ClientCall* call = first_;
    while (call != nullptr && call->mark_ != kTooLong && call->mark_ != kNoRoom) {
      call = call->next_;
    }
    return call;
  };
  while (ClientCall* call = find()) {
    const bool too_long = call->mark_ == kTooLong;
    take_call(call->call_id_);
    call->on_failure(too_long ? Status(StatusCode::kInvalidArgument,
                                       "request body: longer than the peer accepts, at most " +
                                           std::to_string(wire::kMaxBodyBytes) + " bytes")
                              : Status(StatusCode::kRetry,
                                       "more waits already to be sent to the peer than it takes"));
  }
}

}  // namespace ramcloud
