// For tests of services without a network: a transport that records their replies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "transport/testing/only_replies.h"

namespace ramcloud::testing {

class RecordedReplies final : public OnlyReplies {
 public:
  struct Reply {
    StatusCode status = StatusCode::kOk;
    std::string body;
  };

  void reply(const ReplyHandle& handle, StatusCode code, std::span<const Slice> slices) override {
    answered.push_back(handle.call_id);
    Reply& reply = by_call[handle.call_id];
    reply.status = code;
    reply.body.clear();
    for (const Slice& slice : slices) {
      reply.body.append(static_cast<const char*>(slice.data), slice.size);
    }
  }
  bool has_room(const ReplyHandle&, uint64_t bytes) const override {
    return charged + static_cast<int64_t>(bytes) <= room;
  }
  void charge(const ReplyHandle&, int64_t bytes) override {
    charged += bytes;
    most_charged = std::max(most_charged, charged);
  }
  bool is_open(const ReplyHandle& handle) const override {
    return !closed.contains(handle.connection) && !closed_calls.contains(handle.call_id);
  }
  uint64_t closed_connections() const override { return closed.size(); }

  /// The newest reply.
  const Reply& last() const { return by_call.at(answered.back()); }
  /// Calls that were answered with this status, in the order of their replies.
  std::vector<uint64_t> with(StatusCode status) const {
    std::vector<uint64_t> calls;
    std::ranges::copy_if(answered, std::back_inserter(calls),
                         [&](uint64_t call) { return by_call.at(call).status == status; });
    return calls;
  }
  bool each_answered_once() const { return answered.size() == by_call.size(); }

  std::vector<uint64_t> answered;  // call ids, in the order of their replies
  std::map<uint64_t, Reply> by_call;
  std::set<uint32_t> closed;        // connections
  std::set<uint64_t> closed_calls;  // calls whose connections are closed
  int64_t room = std::numeric_limits<int64_t>::max();
  int64_t charged = 0;
  int64_t most_charged = 0;
};

}  // namespace ramcloud::testing
