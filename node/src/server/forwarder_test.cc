#include "server/forwarder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/sim/sim_scheduler.h"
#include "transport/testing/only_replies.h"

namespace ramcloud::server {
namespace {

using wire::Opcode;

class Refusals final : public ramcloud::testing::OnlyReplies {
 public:
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body) override {
    calls.push_back(handle.call_id);
    statuses.push_back(status);
    retry_after_us = load<wire::ErrorBody>(body.front().data).retry_after_us;
  }
  std::vector<uint64_t> calls;
  std::vector<StatusCode> statuses;
  uint32_t retry_after_us = 0;
};

/// The first reactor, which records its requests, and the second, which is the caller's.
class ForwarderTest : public ::testing::Test {
 protected:
  struct Came {
    ReplyHandle handle;
    std::string body;
  };
  ForwarderTest() {
    registry_.add(
        Opcode::kPing,
        [](void* test, const Request& request) {
          static_cast<ForwarderTest*>(test)->came_.push_back(
              {request.reply, std::string(request.body)});
        },
        this);
  }
  void forward(uint64_t call, std::string body) {
    wire::MessageHeader header{};
    header.opcode = static_cast<uint16_t>(Opcode::kPing);
    ReplyHandle handle;
    handle.call_id = call;
    Forwarder::forward(&forwarder_, Request{handle, header, body});
    body.assign(body.size(), '-');  // as a receive buffer that is used again
  }
  void first_turns() { node_.reactor().turn(); }

  SimScheduler sim_{1};
  SimNode& node_ = sim_.add_node("first");
  Refusals here_, there_;
  ServiceRegistry registry_{there_};
  std::atomic<uint64_t> bytes_{0};
  Forwarder forwarder_{node_.reactor(), registry_, 3, here_, bytes_};
  std::vector<Came> came_;
};

TEST_F(ForwarderTest, TheFirstReactorGetsACopyThatKnowsWhereItCameFrom) {
  forward(7, "what was asked");
  EXPECT_TRUE(came_.empty()) << "not on the caller's thread";
  first_turns();
  ASSERT_EQ(came_.size(), 1u);
  EXPECT_EQ(came_[0].handle.call_id, 7u);
  EXPECT_EQ(came_[0].handle.reactor, 3);
  EXPECT_EQ(came_[0].body, "what was asked");
  EXPECT_TRUE(here_.calls.empty());
}

TEST_F(ForwarderTest, WhatWaitsIsLimitedAndGivenBackWhenItWasHandled) {
  constexpr uint64_t kBytes = 1u << 20;
  const std::string body(kBytes, 'b');
  uint64_t call = 0;
  while (here_.calls.empty()) {
    ASSERT_LE(call, Forwarder::kMaxBytes / kBytes) << "there is no limit";
    forward(++call, body);
  }
  EXPECT_EQ(call, Forwarder::kMaxBytes / kBytes) << "bodies are not all that copies take";
  EXPECT_EQ(here_.calls, std::vector{call});
  EXPECT_EQ(here_.statuses, std::vector{StatusCode::kRetry});
  EXPECT_EQ(here_.retry_after_us, Forwarder::kRetryAfterUs);
  first_turns();
  EXPECT_EQ(came_.size(), call - 1);
  EXPECT_EQ(bytes_, 0u);
  forward(++call, body);
  EXPECT_EQ(here_.calls.size(), 1u) << "there is room again";
}

TEST_F(ForwarderTest, DataAndWritesOfReplicasAreServedAnywhere) {
  const auto serves = [](Opcode opcode) {
    return any_reactor_serves(static_cast<uint16_t>(opcode));
  };
  for (const auto opcode :
       {Opcode::kRead, Opcode::kWrite, Opcode::kMultiDelete, Opcode::kReplicaWrite}) {
    EXPECT_TRUE(serves(opcode)) << static_cast<int>(opcode);
  }
  for (const auto opcode :
       {Opcode::kPing, Opcode::kReplicaOpen, Opcode::kReplicaFree, Opcode::kTakeTablet,
        Opcode::kUpdateServerList, Opcode::kRecoveryQuery, Opcode::kRecoveryFetch}) {
    EXPECT_FALSE(serves(opcode)) << static_cast<int>(opcode);
  }
}

}  // namespace
}  // namespace ramcloud::server
