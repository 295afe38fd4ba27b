// A backup's replica service behind a registry, on a simulated disk, with its recorded answers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backup/replica_service.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/testing/only_replies.h"
#include "wire/codec.h"

namespace ramcloud::testing {

inline constexpr wire::Uuid kServiceCluster{1, 2, 3};
inline constexpr uint64_t kServiceMaster = 7;
inline constexpr uint64_t kServiceCrashed = 8;

class Replies final : public OnlyReplies {
 public:
  void reply(const ReplyHandle&, StatusCode code, std::span<const Slice> body) override {
    ++count;
    status = code;
    bytes.clear();
    for (const Slice& slice : body) {
      bytes.append(static_cast<const char*>(slice.data), slice.size);
    }
    all_held.push_back(bytes_held());
    statuses.push_back(code);
  }
  uint32_t bytes_held() const {
    return bytes.size() == sizeof(wire::ReplicaReply)
               ? load<wire::ReplicaReply>(bytes.data()).bytes_held
               : ~uint32_t{0};
  }
  /// True if the last answer is an error with NOTHING_WRITTEN.
  bool nothing_written() const {
    wire::MessageHeader header{};
    header.status = static_cast<uint16_t>(status);
    const RpcReply reply = decode_reply(header, bytes);
    return (reply.details.flags & wire::ErrorDetails::kNothingWritten) != 0;
  }
  int count = 0;
  StatusCode status = StatusCode::kOk;
  std::string bytes;
  std::vector<uint32_t> all_held;
  std::vector<StatusCode> statuses;  // of all answers
};

class ReplicaServiceTest : public ::testing::Test {
 protected:
  explicit ReplicaServiceTest(uint64_t seed = 3) : scheduler_(seed) {}
  void SetUp() override {
    auto frames = FrameStore::open(node_.disk(), "/d", frames_wanted_ * log::kSegmentBytes);
    ASSERT_TRUE(frames.has_value());
    frames_ = std::move(*frames);
    ASSERT_TRUE(frames_->adopt(kServiceCluster, 5, 1, 1).ok());
    wire::ServerList list{1, 1, std::vector<wire::ServerListEntry>(2)};
    list.servers[0].server_id = kServiceMaster;
    list.servers[1].server_id = kServiceCrashed;
    list.servers[1].state = wire::ServerState::kCrashed;
    ASSERT_TRUE(servers_.apply(list).ok());
    service_ =
        std::make_unique<ReplicaService>(node_.reactor(), *registry_, *frames_, servers_, options_);
  }
  void post(wire::Opcode opcode, const std::string& body) {
    wire::MessageHeader header{};
    header.opcode = static_cast<uint16_t>(opcode);
    ReplyHandle handle;
    handle.version = version_;  // the caller reads the details of errors
    registry_->on_request(handle, header, body);
  }
  void post_open(uint64_t segment, const std::string& bytes) {
    const wire::ReplicaOpenRequest request{.master_id = kServiceMaster,
                                           .segment_id = segment,
                                           .epoch = 1,
                                           .flags = 0,
                                           .capacity = 4096,
                                           .length = static_cast<uint32_t>(bytes.size()),
                                           .list_version = 1};
    post(wire::Opcode::kReplicaOpen, std::string(bytes_of(request)) + bytes);
  }
  void post_write(uint64_t segment, uint32_t offset, const std::string& bytes, uint32_t epoch = 1) {
    const wire::ReplicaWriteRequest request{.master_id = kServiceMaster,
                                            .segment_id = segment,
                                            .epoch = epoch,
                                            .offset = offset,
                                            .length = static_cast<uint32_t>(bytes.size()),
                                            .flags = 0};
    post(wire::Opcode::kReplicaWrite, std::string(bytes_of(request)) + bytes);
  }
  StatusCode send(wire::Opcode opcode, const std::string& body) {
    const int before = replies_.count;
    post(opcode, body);
    EXPECT_TRUE(scheduler_.run_until([&] { return replies_.count > before; }, 10s));
    return replies_.status;
  }
  StatusCode open(uint64_t segment, const std::string& bytes, uint32_t epoch = 1,
                  uint64_t master = kServiceMaster, uint64_t list_version = 1,
                  uint32_t capacity = 4096, uint32_t flags = 0) {
    const wire::ReplicaOpenRequest request{.master_id = master,
                                           .segment_id = segment,
                                           .epoch = epoch,
                                           .flags = flags,
                                           .capacity = capacity,
                                           .length = static_cast<uint32_t>(bytes.size()),
                                           .list_version = list_version};
    return send(wire::Opcode::kReplicaOpen, std::string(bytes_of(request)) + bytes);
  }
  StatusCode write(uint64_t segment, uint32_t offset, const std::string& bytes, uint32_t epoch = 1,
                   uint64_t master = kServiceMaster, uint32_t flags = 0) {
    const wire::ReplicaWriteRequest request{.master_id = master,
                                            .segment_id = segment,
                                            .epoch = epoch,
                                            .offset = offset,
                                            .length = static_cast<uint32_t>(bytes.size()),
                                            .flags = flags};
    return send(wire::Opcode::kReplicaWrite, std::string(bytes_of(request)) + bytes);
  }
  uint64_t frames_wanted_ = 2;
  uint16_t version_ = wire::kExtensible;  // of the protocol
  ReplicaService::Options options_;
  SimScheduler scheduler_;
  SimNode& node_ = scheduler_.add_node("b");
  Replies replies_;
  std::unique_ptr<ServiceRegistry> registry_ = std::make_unique<ServiceRegistry>(replies_);
  ServerList servers_;
  std::unique_ptr<FrameStore> frames_;
  std::unique_ptr<ReplicaService> service_;
};

}  // namespace ramcloud::testing
