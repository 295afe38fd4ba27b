// A backup's record of a segment's holders.
#include "backup/testing/service_fixture.h"

namespace ramcloud {
namespace {

constexpr uint64_t kMaster = testing::kServiceMaster;

class HoldersTest : public testing::ReplicaServiceTest {
 protected:
  static std::string extension(const std::vector<uint64_t>& holders) {
    return wire::encode(wire::ReplicaExtension{holders}, wire::kExtensible);
  }
  StatusCode open_with(const std::string& extension, uint32_t epoch = 1) {
    const wire::ReplicaOpenRequest request{.master_id = kMaster,
                                           .segment_id = 1,
                                           .epoch = epoch,
                                           .flags = wire::kExtended,
                                           .capacity = 4096,
                                           .length = 4,
                                           .list_version = 1};
    return send(wire::Opcode::kReplicaOpen, std::string(bytes_of(request)) + extension + "head");
  }
  StatusCode write_with(const std::string& extension, uint32_t offset, const std::string& bytes) {
    const int before = replies_.count;
    post_write_with(extension, offset, bytes);
    EXPECT_TRUE(scheduler_.run_until([&] { return replies_.count > before; }, 10s));
    return replies_.status;
  }
  void post_write_with(const std::string& extension, uint32_t offset, const std::string& bytes) {
    const wire::ReplicaWriteRequest request{.master_id = kMaster,
                                            .segment_id = 1,
                                            .epoch = 1,
                                            .offset = offset,
                                            .length = static_cast<uint32_t>(bytes.size()),
                                            .flags = wire::kExtended};
    post(wire::Opcode::kReplicaWrite, std::string(bytes_of(request)) + extension + bytes);
  }
  /// The holders on the device, as after a power cut.
  FrameSlot on_device() {
    node_.disk().power_loss();
    const std::string image = node_.disk().contents("/d/frames");
    FrameSlot newest{}, slot;
    for (const uint64_t at : {uint64_t{0}, kFrameSlotStride}) {
      std::string bytes = image.substr(std::min(image.size(), frame_metadata_offset(0) + at));
      bytes.resize(kSlotBytes);
      if (parse_slot(bytes, slot) == SlotVerdict::kValid && slot.sequence > newest.sequence) {
        newest = slot;
      }
    }
    return newest;
  }
  static std::vector<uint64_t> holders_of(const FrameSlot& slot) {
    return {slot.holders, slot.holders + slot.holder_count};
  }
};

TEST_F(HoldersTest, AreOnTheDeviceWhenTheOpenIsAnswered) {
  const BootId boot = node_.disk().boot_id();
  ASSERT_EQ(open_with(extension({5, 9, 11})), StatusCode::kOk);
  const FrameSlot slot = on_device();
  EXPECT_EQ(holders_of(slot), (std::vector<uint64_t>{5, 9, 11}));
  EXPECT_EQ(std::memcmp(slot.boot_id, boot.data(), boot.size()), 0);
  EXPECT_EQ(slot.flags & FrameSlot::kSynced, 0);
}

TEST_F(HoldersTest, AWriteThatTellsOthersIsAnsweredWhenTheyAreOnTheDevice) {
  ASSERT_EQ(open_with(extension({5, 9})), StatusCode::kOk);
  node_.disk().set_slow(1s);
  const Time sent = scheduler_.now();
  ASSERT_EQ(write_with(extension({5, 12}), 4, "more"), StatusCode::kOk);
  EXPECT_GE(scheduler_.now() - sent, 1s) << "a sync takes so long";
  EXPECT_EQ(replies_.bytes_held(), 8u);
  EXPECT_EQ(holders_of(on_device()), (std::vector<uint64_t>{5, 12}));
}

TEST_F(HoldersTest, StayWhenAMessageSaysNothingOfThem) {
  ASSERT_EQ(open_with(extension({5, 9})), StatusCode::kOk);
  ASSERT_EQ(write(1, 4, "more", 2), StatusCode::kOk) << "a higher epoch";
  ASSERT_EQ(open(1, "head", 3), StatusCode::kOk);
  EXPECT_EQ(service_->find(kMaster, 1)->holders.count, 2);
  const FrameSlot slot = on_device();
  EXPECT_EQ(uint32_t{slot.epoch}, 3u);
  EXPECT_EQ(holders_of(slot), (std::vector<uint64_t>{5, 9}));
}

TEST_F(HoldersTest, WhatIsUnknownInAnExtensionIsSkipped) {
  std::string more = extension({5, 9});
  more += "later fields";
  const auto length = static_cast<uint32_t>(more.size() - sizeof(uint32_t));
  std::memcpy(more.data(), &length, sizeof length);
  ASSERT_EQ(open_with(more), StatusCode::kOk);
  EXPECT_EQ(holders_of(on_device()), (std::vector<uint64_t>{5, 9}));
}

TEST_F(HoldersTest, TooManyOrMalformedAreRefused) {
  EXPECT_EQ(open_with(extension(std::vector<uint64_t>(wire::kMaxHolders + 1, 1))),
            StatusCode::kInvalidArgument);
  std::string cut = extension({5, 9});
  const uint32_t length = 7;  // in the middle of the list
  cut.resize(sizeof length + length);
  std::memcpy(cut.data(), &length, sizeof length);
  EXPECT_EQ(open_with(cut), StatusCode::kInvalidArgument);
  EXPECT_EQ(service_->replicas(), 0u);
}

/// Or the same holders, sent again, would be acknowledged without being written.
TEST_F(HoldersTest, ThatCannotBeWrittenDoNotHold) {
  ASSERT_EQ(open_with(extension({5, 9})), StatusCode::kOk);
  node_.disk().fail_with({StatusCode::kNoSpace, "no space left on device"});
  EXPECT_EQ(write_with(extension({5, 12}), 4, ""), StatusCode::kNoSpace);
  node_.disk().fail_with({});
  ASSERT_EQ(write_with(extension({5, 12}), 4, ""), StatusCode::kOk);
  EXPECT_EQ(holders_of(on_device()), (std::vector<uint64_t>{5, 12}));
}

class SyncedHoldersTest : public HoldersTest {
 protected:
  SyncedHoldersTest() { options_.synced = true; }
};

TEST_F(SyncedHoldersTest, TheFrameSaysThatItIsSynced) {
  ASSERT_EQ(open_with(extension({5})), StatusCode::kOk);
  EXPECT_NE(on_device().flags & FrameSlot::kSynced, 0);
}

}  // namespace
}  // namespace ramcloud
