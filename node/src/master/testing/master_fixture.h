// For tests of a master's services: a store over a log whose replication the test controls, and a
// transport that keeps the replies.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/metrics.h"
#include "log/log_test_support.h"
#include "master/held_replies.h"
#include "rpc/rpc.h"
#include "runtime/sim/sim_scheduler.h"
#include "store/object_store.h"

namespace ramcloud::master::testing {

/// `Replies` is the transport. The log takes data: its first head is open.
template <typename Replies>
class MasterFixture : public ::testing::Test {
 protected:
  uint16_t version_ = wire::kVersionMax;  // of the protocol
  /// `durable_at_once`: if false, nothing becomes durable until the test calls parts_.replicator.
  /// `cleaner_segments`: reserved for survivors.
  MasterFixture(uint32_t segments, bool durable_at_once, uint32_t cleaner_segments = 0)
      : parts_(segments, durable_at_once, 1, false, cleaner_segments) {
    parts_.log.start();
    parts_.replicator.finish_all();
    replies_.attach(parts_.log);
  }
  void own_table(uint64_t table) { EXPECT_TRUE(store_.take_tablet(table, 0, ~uint64_t{0}).ok()); }
  /// Sends a request as from a connection; returns the call's id.
  uint64_t send(wire::Opcode opcode, const std::string& body, uint32_t timeout_ms = 0) {
    wire::MessageHeader header{};
    header.kind = wire::Kind::kRequest;
    header.timeout_ms = timeout_ms;
    header.opcode = static_cast<uint16_t>(opcode);
    ReplyHandle handle;
    handle.call_id = ++last_call_;
    handle.version = version_;
    registry_.on_request(handle, header, body);
    return last_call_;
  }

  SimScheduler sim_{1};
  SimNode& node_ = sim_.add_node("m");
  log::TestLog parts_;
  Replies transport_;
  MetricsRegistry metrics_;
  ServiceRegistry registry_{transport_};
  HeldReplies replies_{node_.reactor(), transport_, metrics_};
  store::ObjectStore store_{parts_.log, sim_.clock(), {}};
  uint64_t last_call_ = 0;
};

}  // namespace ramcloud::master::testing
