#include "backup/frame_store.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "runtime/sim/sim_scheduler.h"

namespace ramcloud {
namespace {

constexpr wire::Uuid kCluster{1, 2, 3};
constexpr wire::Uuid kOther{9};

class FrameStoreTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<FrameStore>> open(uint64_t frames = 2) {
    return FrameStore::open(node_.disk(), "/d", frames * log::kSegmentBytes);
  }
  std::unique_ptr<FrameStore> must_open(uint64_t frames = 2) {
    auto store = open(frames);
    EXPECT_TRUE(store.has_value()) << store.error().to_string();
    return store ? std::move(*store) : nullptr;
  }
  Result<uint32_t> allocate(FrameStore& store, FrameClass frame_class = FrameClass::kHead) {
    std::optional<Result<uint32_t>> frame;
    store.allocate(frame_class, [&](Result<uint32_t> taken) { frame = std::move(taken); });
    EXPECT_TRUE(scheduler_.run_until([&] { return frame.has_value(); }, 1s));
    return frame ? *frame : fail(StatusCode::kInternal, "no answer");
  }
  /// A volume of the cluster with one open replica in frame 0.
  void make_volume() {
    const auto store = must_open();
    ASSERT_TRUE(store->adopt(kCluster, 5, 1, 2).ok());
    ASSERT_EQ(allocate(*store).value(), 0u);
    FrameContent content;
    content.state = FrameState::kOpen;
    content.master_id = 7;
    content.segment_id = 1;
    content.capacity = log::kSegmentBytes;
    ASSERT_TRUE(content.holders.assign(std::vector<uint64_t>{5, 6}));
    ASSERT_TRUE(store->describe(0, content).ok());
  }
  void poke(uint64_t offset, ByteView bytes) {
    auto file = node_.disk().open("/d/frames", frames_file_bytes(2));
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE((*file)->write(offset, bytes).ok());
  }
  template <typename Slot>
  Slot peek(uint64_t offset) {
    Slot slot{};
    auto file = node_.disk().open("/d/frames", frames_file_bytes(2));
    EXPECT_TRUE(file.has_value());
    EXPECT_TRUE((*file)->read(offset, &slot, sizeof slot).ok());
    return slot;
  }
  SimScheduler scheduler_{1};
  SimNode& node_ = scheduler_.add_node("b");
};

/// If only the file is synced and not its folder, the file's name may be lost, and the bytes with
/// it.
TEST_F(FrameStoreTest, ANewVolumeSurvivesAPowerCut) {
  {
    const auto store = must_open();
    ASSERT_TRUE(store->adopt(kCluster, 5, 1, 2).ok());
    std::optional<Status> synced;
    store->sync([&](Status status) { synced = std::move(status); });
    ASSERT_TRUE(scheduler_.run_until([&] { return synced.has_value(); }, 1s));
    ASSERT_TRUE(synced->ok());
  }
  node_.disk().power_loss();
  EXPECT_TRUE(node_.disk().exists("/d/frames"));
  EXPECT_EQ(must_open()->cluster_uuid(), kCluster);
}

TEST_F(FrameStoreTest, GoldenSlots) {
  // Offsets and sums of format version 1. A change here means a new format version.
  make_volume();
  const auto superblock = peek<SuperblockSlot>(0);
  const ByteView bytes = bytes_of(superblock);
  EXPECT_EQ(bytes.substr(0, 8), "RCFRAMES");
  EXPECT_EQ(load<uint16_t>(bytes.data() + 8), 1);
  EXPECT_EQ(load<uint32_t>(bytes.data() + 12), 8u << 20);
  EXPECT_EQ(load<uint64_t>(bytes.data() + 16), 1u) << "sequence";
  EXPECT_EQ(bytes[24], 1) << "cluster";
  EXPECT_EQ(load<uint64_t>(bytes.data() + 40), 5u) << "server";
  EXPECT_EQ(load<uint64_t>(bytes.data() + 48), 1u) << "list term";
  EXPECT_EQ(load<uint64_t>(bytes.data() + 56), 2u) << "list version";
  EXPECT_EQ(load<uint32_t>(bytes.data() + 64), 2u) << "frames";
  EXPECT_EQ(load<uint32_t>(bytes.data() + 508), 0xbc498e34u);
  const auto frame = peek<FrameSlot>(8192);
  const ByteView slot = bytes_of(frame);
  EXPECT_EQ(slot.substr(0, 8), "RCREPLIC");
  EXPECT_EQ(load<uint16_t>(slot.data() + 8), 1);
  EXPECT_EQ(slot[10], 2) << "open";
  EXPECT_EQ(load<uint64_t>(slot.data() + 16), 1u) << "sequence";
  EXPECT_EQ(load<uint64_t>(slot.data() + 40), 5u) << "backup";
  EXPECT_EQ(load<uint64_t>(slot.data() + 48), 7u) << "master";
  EXPECT_EQ(load<uint64_t>(slot.data() + 56), 1u) << "segment";
  EXPECT_EQ(load<uint32_t>(slot.data() + 64), 8u << 20) << "capacity";
  EXPECT_EQ(load<uint64_t>(slot.data() + 72), 1u) << "boot id";
  EXPECT_EQ(load<uint64_t>(slot.data() + 80), 0u) << "boot id";
  EXPECT_EQ(slot[88], 2) << "holders";
  EXPECT_EQ(load<uint64_t>(slot.data() + 96), 5u) << "the first";
  EXPECT_EQ(load<uint64_t>(slot.data() + 104), 6u) << "the second";
  EXPECT_EQ(slot.substr(112, 508 - 112), ByteView(std::string(508 - 112, '\0')));
  EXPECT_EQ(load<uint32_t>(slot.data() + 508), 0x16a95b98u);
}

/// Metadata of an earlier version, without boot ids and holders.
TEST_F(FrameStoreTest, GoldenSlotOfFormerBuilds) {
  make_volume();
  auto frame = peek<FrameSlot>(8192);
  std::memset(frame.boot_id, 0, sizeof frame.boot_id);
  std::memset(frame.holders, 0, sizeof frame.holders);
  frame.holder_count = 0;
  seal(frame);
  EXPECT_EQ(uint32_t{frame.crc}, 0x8f5f2ed7u);
  FrameSlot read{};
  EXPECT_EQ(parse_slot(bytes_of(frame), read), SlotVerdict::kValid);
  EXPECT_EQ(read.holder_count, 0);
  frame.holder_count = wire::kMaxHolders + 1;
  seal(frame);
  EXPECT_EQ(parse_slot(bytes_of(frame), read), SlotVerdict::kCorrupt) << "impossible";
}

TEST_F(FrameStoreTest, AVolumeOfAnotherClusterIsRefusedAndNotChanged) {
  make_volume();
  {
    const auto store = must_open();
    EXPECT_EQ(store->former_server_id(), 5u);
    const Status status = store->adopt(kOther, 6, 1, 1);
    EXPECT_EQ(status.code(), StatusCode::kWrongCluster);
    EXPECT_NE(status.message().find("/d/frames"), std::string::npos) << status.message();
  }
  const auto store = must_open();
  EXPECT_EQ(store->cluster_uuid(), kCluster);
  EXPECT_EQ(store->former_server_id(), 5u);
}

TEST_F(FrameStoreTest, OneDamagedSuperblockIsSurvivedTwoAreNot) {
  make_volume();
  ASSERT_TRUE(must_open()->adopt(kCluster, 8, 3, 4).ok());  // in the first slot
  poke(100, "x");
  EXPECT_EQ(must_open()->former_server_id(), 5u) << "the slot that is left";
  poke(kSuperblockSlotStride + 100, "x");
  const auto refused = open();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kCorrupt);
  EXPECT_NE(refused.error().message().find("/d/frames"), std::string::npos);
}

TEST_F(FrameStoreTest, AVolumeThatWasAdoptedOnceSurvivesADamagedSuperblock) {
  make_volume();
  poke(100, "x");
  EXPECT_EQ(must_open()->former_server_id(), 5u);
}

TEST_F(FrameStoreTest, ANewerFormatIsRefused) {
  make_volume();
  auto slot = peek<SuperblockSlot>(0);
  seal(slot);
  slot.format_version = kFrameFormatVersion + 1;
  slot.crc = crc32c(bytes_of(slot).substr(0, kSlotBytes - 4));
  poke(0, bytes_of(slot));
  const auto refused = open();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kUnsupported);
}

TEST_F(FrameStoreTest, AVolumeThatEndsTooEarlyIsRefused) {
  make_volume();
  auto slot = peek<SuperblockSlot>(kSuperblockSlotStride);
  slot.frame_count = 1000;
  seal(slot);
  poke(kSuperblockSlotStride, bytes_of(slot));
  const auto refused = open();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kCorrupt);
}

TEST_F(FrameStoreTest, ReplicasAndDamagedMetadataAreQuarantined) {
  make_volume();
  poke(frame_metadata_offset(1), "x");
  const auto store = must_open(3);
  EXPECT_EQ(store->frames_total(), 3u);
  EXPECT_EQ(store->frames_quarantined(), 2u);
  EXPECT_EQ(allocate(*store).value(), 2u);
  const auto full = allocate(*store);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code(), StatusCode::kNoSpace);
}

TEST_F(FrameStoreTest, AVolumeHasOneUserAtATime) {
  const auto store = must_open();
  const auto second = open();
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), StatusCode::kUnavailable);
}

TEST_F(FrameStoreTest, AFullDiskLeavesTheFrameFree) {
  const auto store = must_open();
  node_.disk().fail_with({StatusCode::kNoSpace, "full"});
  EXPECT_EQ(allocate(*store).error().code(), StatusCode::kNoSpace);
  EXPECT_EQ(store->frames_free(), 2u);
  node_.disk().fail_with({});
  EXPECT_EQ(allocate(*store).value(), 0u);
}

TEST_F(FrameStoreTest, FramesOnTheirWayAreTaken) {
  const auto store = must_open();
  std::vector<uint32_t> taken;
  int refused = 0;
  for (int i = 0; i < 3; ++i) {
    store->allocate(FrameClass::kHead, [&](const Result<uint32_t>& frame) {
      if (frame) taken.push_back(*frame);
      refused += !frame;
    });
  }
  EXPECT_EQ(refused, 1) << "the third, at once";
  EXPECT_TRUE(taken.empty()) << "the space comes later";
  EXPECT_EQ(store->frames_free(), 0u);
  EXPECT_TRUE(scheduler_.run_until([&] { return taken.size() == 2; }, 1s));
  EXPECT_EQ(taken, (std::vector<uint32_t>{0, 1}));
}

TEST_F(FrameStoreTest, CopiesLeaveTheLastFramesToHeads) {
  const auto store = must_open(16);
  ASSERT_EQ(store->head_reserve(), 2u);
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(allocate(*store, FrameClass::kCopy).has_value());
  const auto refused = allocate(*store, FrameClass::kCopy);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kNoSpace);
  EXPECT_NE(refused.error().message().find("kept for new heads"), std::string::npos);
  EXPECT_TRUE(allocate(*store, FrameClass::kHead).has_value());
  EXPECT_TRUE(allocate(*store, FrameClass::kHead).has_value());
  EXPECT_FALSE(allocate(*store, FrameClass::kHead).has_value());
}

TEST_F(FrameStoreTest, TheHighestServerListEverSeenIsKept) {
  {
    const auto store = must_open();
    ASSERT_TRUE(store->adopt(kCluster, 5, 3, 9).ok());
  }
  {
    const auto store = must_open();
    ASSERT_TRUE(store->adopt(kCluster, 6, 3, 4).ok());
  }
  const auto store = must_open();
  EXPECT_EQ(store->former_server_id(), 6u);
  EXPECT_EQ(store->list_term(), 3u);
  EXPECT_EQ(store->list_version(), 9u);
}

}  // namespace
}  // namespace ramcloud
