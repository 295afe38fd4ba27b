// A backup with replicas of a crashed master, and requests of a recovery.
#pragma once

#include <string>
#include <utility>

#include "backup/testing/service_fixture.h"
#include "log/log_test_support.h"

namespace ramcloud::testing {

/// A master's log whose segments the test sends.
struct SmallLog {
  SmallLog()
      : arena(uint64_t{4} * log::kSegmentBytes, {.try_huge_pages = false, .prefault = false}),
        log(arena, replicator, options()) {
    replicator.attach(log);
    log.start();
  }
  static log::LogOptions options() {
    log::LogOptions options;
    options.cluster_uuid = kServiceCluster;
    options.master_id = kServiceMaster;
    return options;
  }
  void put(const std::string& key, size_t bytes) {
    ASSERT_EQ(log::append_object(log, 1, ++version, key, std::string(bytes, 'v')), StatusCode::kOk);
  }
  std::string bytes(uint64_t segment) const { return log::image_of(*log.find_segment(segment)); }
  log::Arena arena;
  log::FakeReplicator replicator{true};
  log::Log log;
  uint64_t version = 0;
};

class RecoveryFixture : public ReplicaServiceTest {
 protected:
  static constexpr uint32_t kCapacity = log::kSegmentBytes;

  StatusCode open_head(uint64_t segment, const std::string& bytes, uint32_t flags = 0) {
    const wire::ReplicaOpenRequest request{.master_id = kServiceMaster,
                                           .segment_id = segment,
                                           .epoch = 1,
                                           .flags = wire::kExtended | flags,
                                           .capacity = kCapacity,
                                           .length = static_cast<uint32_t>(bytes.size()),
                                           .list_version = 1};
    return send(wire::Opcode::kReplicaOpen,
                std::string(bytes_of(request)) +
                    wire::encode(wire::ReplicaExtension{{5, 8}}, wire::kExtensible) + bytes);
  }
  void post_query(uint64_t term = 1, uint32_t first_frame = 0, uint64_t scan_from = ~uint64_t{0}) {
    const wire::RecoveryQueryRequest query{term, kServiceMaster, first_frame, scan_from};
    post(wire::Opcode::kRecoveryQuery, wire::encode(query, wire::kExtensible));
  }
  wire::RecoveryQueryReply query(uint32_t first_frame = 0, uint64_t scan_from = ~uint64_t{0}) {
    const int before = replies_.count;
    post_query(1, first_frame, scan_from);
    EXPECT_TRUE(scheduler_.run_until([&] { return replies_.count > before; }, 10s));
    EXPECT_EQ(replies_.status, StatusCode::kOk) << replies_.bytes;
    return answer();
  }
  wire::RecoveryQueryReply answer() const {
    wire::RecoveryQueryReply reply;
    EXPECT_TRUE(wire::decode(replies_.bytes, wire::kExtensible, reply));
    return reply;
  }
  /// Everything that the replica has of table 1, in one page.
  wire::RecoveryFetchReply fetch_all(const wire::RecoveryReplica& told) {
    const wire::RecoveryFetchRequest request{.master_id = kServiceMaster,
                                             .segment_id = told.segment_id,
                                             .frame = told.frame,
                                             .offset = 0,
                                             .end = told.length,
                                             .max_bytes = wire::RecoveryFetchRequest::kMostBytes,
                                             .ranges = {{1, 0, ~uint64_t{0}}},
                                             .further = {}};
    EXPECT_EQ(send(wire::Opcode::kRecoveryFetch, wire::encode(request, wire::kExtensible)),
              StatusCode::kOk);
    const auto head = load<wire::RecoveryFetchReply>(replies_.bytes.data());
    EXPECT_EQ(head.next_offset, told.length);
    EXPECT_EQ(head.bytes, replies_.bytes.size() - sizeof head);
    return head;
  }
  /// Restarts the process as server 9; `power_loss`: the host lost power, too.
  void restart(bool power_loss) {
    service_.reset();
    frames_.reset();
    if (power_loss) {
      node_.disk().power_loss();
    } else {
      node_.disk().crash();
    }
    frames_ = std::move(*FrameStore::open(node_.disk(), "/d", frames_wanted_ * log::kSegmentBytes));
    ASSERT_TRUE(frames_->adopt(kServiceCluster, 9, 1, 1).ok());
    registry_ = std::make_unique<ServiceRegistry>(replies_);
    service_ =
        std::make_unique<ReplicaService>(node_.reactor(), *registry_, *frames_, servers_, options_);
  }
  void poke(uint64_t offset, ByteView bytes) {
    ASSERT_TRUE(frames_->write(0, static_cast<uint32_t>(offset), bytes).ok());
  }
};

}  // namespace ramcloud::testing
