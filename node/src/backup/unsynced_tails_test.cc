#include "backup/unsynced_tails.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/testing/sanitizer.h"
#include "runtime/sim/sim_scheduler.h"

namespace ramcloud {
namespace {

constexpr uint32_t kBlock = UnsyncedTails::kBlock;
constexpr uint32_t kBuffer = UnsyncedTails::kBufferBytes;

class UnsyncedTailsTest : public ::testing::Test {
 protected:
  explicit UnsyncedTailsTest(uint64_t seed = 5) : sim_(seed) {
    auto frames = FrameStore::open(node_.disk(), "/d", 4 * log::kSegmentBytes);
    EXPECT_TRUE(frames.has_value());
    frames_ = std::move(*frames);
    EXPECT_TRUE(frames_->adopt({1}, 5, 1, 1).ok());
    EXPECT_TRUE(UnsyncedTails::possible(*frames_));
    tails_ = std::make_unique<UnsyncedTails>(*frames_, 4);
  }
  uint32_t take_frame() {
    std::optional<uint32_t> taken;
    frames_->allocate(FrameClass::kHead, [&](const Result<uint32_t>& frame) { taken = *frame; });
    EXPECT_TRUE(sim_.run_until([&] { return taken.has_value(); }, 10s));
    return *taken;
  }
  Status append(uint32_t frame, const std::string& bytes) {
    Status taken = tails_->append(frame, bytes);
    if (taken.ok()) sent_[frame] += bytes;
    return taken;
  }
  Status commit() {
    std::optional<Status> done;
    tails_->commit([&](Status status) { done = std::move(status); });
    EXPECT_TRUE(sim_.run_until([&] { return done.has_value(); }, 10s));
    return *done;
  }
  /// Of a frame's segment, what the disk has.
  std::string on_disk(uint32_t frame, size_t size) {
    std::string all = node_.disk().contents("/d/frames");
    all.resize(frame_metadata_offset(4));
    return all.substr(frame_data_offset(frame), size);
  }
  SimScheduler sim_;
  SimNode& node_ = sim_.add_node("b");
  std::unique_ptr<FrameStore> frames_;
  std::unique_ptr<UnsyncedTails> tails_;
  std::map<uint32_t, std::string> sent_;  // by frame
};

TEST_F(UnsyncedTailsTest, OneBatchWritesTheBytesOfAllReplicas) {
  const uint32_t a = take_frame(), b = take_frame();
  ASSERT_TRUE(append(a, "some").ok());
  ASSERT_TRUE(append(b, std::string(kBlock + 1, 'b')).ok());
  ASSERT_TRUE(append(a, "thing").ok());
  EXPECT_EQ(on_disk(a, 9), std::string(9, '\0')) << "waits for a commit";
  ASSERT_TRUE(commit().ok());
  node_.disk().power_loss();
  EXPECT_EQ(on_disk(a, 10), std::string("something\0", 10));
  EXPECT_EQ(on_disk(b, kBlock + 2), std::string(kBlock + 1, 'b') + '\0');
  EXPECT_EQ(tails_->buffers_free(), 4u);
}

TEST_F(UnsyncedTailsTest, TheLastBlockIsWrittenAgainWithWhatCame) {
  const uint32_t a = take_frame();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(append(a, std::string(150, static_cast<char>('0' + i % 10))).ok());
    ASSERT_TRUE(commit().ok());
    ASSERT_EQ(on_disk(a, sent_[a].size()), sent_[a]) << i;
  }
}

TEST_F(UnsyncedTailsTest, ManyBuffersOfOneReplicaAreOneCommit) {
  const uint32_t a = take_frame();
  ASSERT_TRUE(append(a, std::string(100, '1')).ok());
  ASSERT_TRUE(commit().ok());
  std::string long_one;
  for (uint32_t i = 0; long_one.size() < 3 * kBuffer; ++i) long_one += std::to_string(i) + " ";
  ASSERT_TRUE(append(a, long_one).ok());
  EXPECT_EQ(tails_->buffers_free(), 0u);
  ASSERT_TRUE(commit().ok());
  EXPECT_EQ(on_disk(a, sent_[a].size()), sent_[a]);
  EXPECT_EQ(tails_->buffers_free(), 4u);
}

TEST_F(UnsyncedTailsTest, WithoutBuffersNothingIsTakenAndItComesAgain) {
  const uint32_t a = take_frame(), b = take_frame();
  ASSERT_TRUE(append(a, std::string(3 * kBuffer, 'a')).ok());
  EXPECT_EQ(append(b, std::string(kBuffer + 1, 'b')).code(), StatusCode::kRetry);
  ASSERT_TRUE(append(b, std::string(kBuffer, 'B')).ok());
  EXPECT_EQ(append(a, "x").code(), StatusCode::kRetry);
  ASSERT_TRUE(commit().ok());
  ASSERT_TRUE(append(b, std::string(kBuffer + 1, 'b')).ok());
  ASSERT_TRUE(append(a, "x").ok());
  ASSERT_TRUE(commit().ok());
  for (const uint32_t frame : {a, b}) {
    EXPECT_EQ(on_disk(frame, sent_[frame].size()), sent_[frame]);
  }
}

TEST_F(UnsyncedTailsTest, ABlockThatIsPartlyWrittenCountsForTheRoom) {
  const uint32_t a = take_frame();
  ASSERT_TRUE(append(a, "x").ok());
  ASSERT_TRUE(commit().ok());
  EXPECT_EQ(append(a, std::string(4 * kBuffer, 'a')).code(), StatusCode::kRetry);
  ASSERT_TRUE(append(a, std::string(4 * kBuffer - 1, 'a')).ok());
  ASSERT_TRUE(commit().ok());
  EXPECT_EQ(on_disk(a, sent_[a].size()), sent_[a]);
}

TEST_F(UnsyncedTailsTest, CommitsDuringABatchShareTheNext) {
  const uint32_t a = take_frame();
  std::vector<int> order;
  const auto commit_as = [&](int number) {
    tails_->commit([&order, number](const Status& status) {
      EXPECT_TRUE(status.ok());
      order.push_back(number);
    });
  };
  ASSERT_TRUE(append(a, "a").ok());
  commit_as(1);
  ASSERT_TRUE(append(a, "b").ok());
  commit_as(2);
  ASSERT_TRUE(append(a, "c").ok());
  commit_as(3);
  EXPECT_TRUE(order.empty());
  ASSERT_TRUE(sim_.run_until([&] { return order.size() == 1; }, 1s));
  EXPECT_EQ(on_disk(a, 3), std::string("a\0\0", 3));
  ASSERT_TRUE(sim_.run_until([&] { return !order.empty() && order.size() != 1; }, 1s));
  EXPECT_EQ(order, std::vector({1, 2, 3}));
  EXPECT_EQ(on_disk(a, 3), "abc");
  commit_as(4);
  EXPECT_EQ(order.back(), 4) << "nothing to wait for";
}

TEST_F(UnsyncedTailsTest, WhatIsForgottenIsNotWritten) {
  const uint32_t a = take_frame(), b = take_frame();
  ASSERT_TRUE(append(a, std::string(2 * kBuffer + 1, 'a')).ok());
  ASSERT_TRUE(append(b, "b").ok());
  tails_->forget(a);
  EXPECT_EQ(tails_->buffers_free(), 3u);
  tails_->forget(a);
  ASSERT_TRUE(commit().ok());
  EXPECT_EQ(on_disk(a, 1), std::string(1, '\0'));
  EXPECT_EQ(on_disk(b, 1), "b");
  EXPECT_EQ(tails_->buffers_free(), 4u);
}

TEST_F(UnsyncedTailsTest, AFrameUnderWayIsNotTakenAgainBeforeItIsWritten) {
  const uint32_t a = take_frame();
  while (frames_->frames_free() > 0) take_frame();
  ASSERT_TRUE(append(a, "old").ok());
  bool written = false;
  tails_->commit([&](const Status& status) { written = status.ok(); });
  tails_->forget(a);
  ASSERT_TRUE(frames_->release(a).ok());
  EXPECT_EQ(frames_->frames_free(), 0u);
  ASSERT_TRUE(sim_.run_until([&] { return written; }, 1s));
  EXPECT_EQ(frames_->frames_free(), 1u);
  EXPECT_EQ(take_frame(), a);
  EXPECT_EQ(on_disk(a, 3), std::string(3, '\0'));
  sent_.clear();
  ASSERT_TRUE(append(a, "n").ok());
  ASSERT_TRUE(commit().ok());
  EXPECT_EQ(on_disk(a, 3), std::string("n\0\0", 3));
}

TEST_F(UnsyncedTailsTest, OnceABatchFailedNothingIsSaidToBeThere) {
  const uint32_t a = take_frame();
  ASSERT_TRUE(append(a, "a").ok());
  node_.disk().fail_with({StatusCode::kIoError, "bad sector"});
  EXPECT_EQ(commit().code(), StatusCode::kIoError);
  node_.disk().fail_with({});
  ASSERT_TRUE(append(a, "b").ok());
  EXPECT_EQ(commit().code(), StatusCode::kIoError);
}

TEST_F(UnsyncedTailsTest, NobodyIsToldAfterTheEnd) {
  const uint32_t a = take_frame();
  ASSERT_TRUE(append(a, "a").ok());
  bool told = false;
  tails_->commit([&](const Status&) { told = true; });
  tails_.reset();
  sim_.run_for(1s);
  EXPECT_FALSE(told);
}

/// Replicas that grow by random steps, committed now and then, until the power goes.
class TailsPowerCut : public UnsyncedTailsTest {
 public:
  explicit TailsPowerCut(uint64_t seed) : UnsyncedTailsTest(seed), random_(seed) {}
  void TestBody() override {}
  void run() {
    const uint32_t frames[] = {take_frame(), take_frame(), take_frame()};
    const uint64_t steps = 1 + random_.below(200);
    for (uint64_t i = 0; i < steps; ++i) {
      const uint32_t frame = frames[random_.below(3)];
      std::string bytes(1 + random_.below(random_.chance(0.2) ? 50'000 : 500), '\0');
      for (char& c : bytes) c = static_cast<char>('a' + random_.below(26));
      const Status taken = append(frame, bytes);
      EXPECT_TRUE(taken.ok() || taken.code() == StatusCode::kRetry);
      if (random_.chance(0.3)) {
        tails_->commit([this, sent = sent_](const Status& status) {
          EXPECT_TRUE(status.ok());
          committed_ = sent;
        });
      }
      if (random_.chance(0.3)) sim_.run_for(Duration(random_.below(2'000'000)));
    }
    sim_.power_off(node_);
    for (const auto& [frame, bytes] : committed_) {
      ASSERT_EQ(on_disk(frame, bytes.size()), bytes) << "frame " << frame;
    }
    // Behind it, sector by sector, the bytes that were sent, or none.
    for (const auto& [frame, bytes] : sent_) {
      const size_t known = committed_[frame].size();
      const std::string found = on_disk(frame, bytes.size());
      for (size_t i = known; i < bytes.size(); ++i) {
        ASSERT_TRUE(found[i] == bytes[i] || found[i] == '\0') << "frame " << frame << " at " << i;
      }
      ASSERT_EQ(on_disk(frame, bytes.size() + 100'000).find_first_not_of('\0', bytes.size()),
                std::string::npos)
          << "frame " << frame;
    }
    tails_.reset();
    frames_.reset();
  }

 private:
  Random random_;
  std::map<uint32_t, std::string> committed_;
};

TEST(UnsyncedTailsPowerCut, WhatWasCommittedIsThereAndNothingElseThanWhatWasSent) {
  for (uint64_t seed = 1; seed <= testing::seeds(50); ++seed) {
    SCOPED_TRACE(seed);
    TailsPowerCut(seed).run();
  }
}

}  // namespace
}  // namespace ramcloud
