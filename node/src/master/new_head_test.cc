#include "master/new_head.h"

#include <gtest/gtest.h>

#include <string>

#include "log/side_log.h"
#include "master/testing/master_fixture.h"
#include "transport/testing/only_replies.h"

namespace ramcloud::master {
namespace {

class NoReplies final : public ramcloud::testing::OnlyReplies {
 public:
  void reply(const ReplyHandle&, StatusCode, std::span<const Slice>) override {}
};

class NewHeadTest : public testing::MasterFixture<NoReplies> {
 protected:
  explicit NewHeadTest(uint32_t segments = 8, bool durable_at_once = true)
      : MasterFixture(segments, durable_at_once) {}
  Task<void> ask() {
    head_ = co_await new_head(node_.reactor(), epochs_, parts_.log);
    answered_ = true;
  }
  Result<uint64_t> roll() {
    tasks_.spawn(ask());
    EXPECT_TRUE(sim_.run_until([this] { return answered_; }, 10s));
    return head_;
  }
  void append(uint32_t bytes) {
    ASSERT_EQ(log::append_object(parts_.log, 1, 1, "key", std::string(bytes, 'x')),
              StatusCode::kOk);
    parts_.replicator.finish_all();
  }

  Epochs epochs_;
  TaskScope tasks_{node_.reactor()};
  Result<uint64_t> head_;
  bool answered_ = false;
};

TEST_F(NewHeadTest, ItIsAboveTheHeadThatWas) {
  const uint64_t before = parts_.log.head().segment_id();
  append(100);
  const auto head = roll();
  ASSERT_TRUE(head.has_value());
  EXPECT_GT(*head, before);
  EXPECT_EQ(parts_.log.head().segment_id(), *head);
}

TEST_F(NewHeadTest, ItIsAboveSideSegmentsThatHaveEntries) {
  for (int i = 0; i < 5; ++i) append(1'000'000);
  ASSERT_EQ(parts_.log.segments().size(), 2u) << "the next head is open";
  log::SideLog side(parts_.log);
  const log::TestObject object(1, 1, "key", "value");
  const char* refs[1];
  ASSERT_EQ(side.append({&object.source, 1}, refs), StatusCode::kOk);
  const uint64_t aside = side.segments().back()->id();
  ASSERT_GT(aside, parts_.log.segments().back()->id());
  const auto head = roll();
  ASSERT_TRUE(head.has_value());
  EXPECT_GT(*head, aside);
}

/// Otherwise an entry of an earlier tablet of the range could be taken for one of the next.
TEST_F(NewHeadTest, ItIsAboveWhatASliceOfCleaningStillAppends) {
  Epochs::Participant cleaner(epochs_);
  append(100);
  tasks_.spawn(ask());
  sim_.run_for(10ms);
  EXPECT_FALSE(answered_) << "the slice has not ended";
  log::SideLog side(parts_.log, log::MemoryPurpose::kSurvivors);
  const log::TestObject object(1, 1, "key", "value");
  const char* refs[1];
  ASSERT_EQ(side.append({&object.source, 1}, refs), StatusCode::kOk);
  cleaner.pass();
  ASSERT_TRUE(sim_.run_until([this] { return answered_; }, 10s));
  ASSERT_TRUE(head_.has_value());
  EXPECT_GT(*head_, side.segments().back()->id());
}

class NewestHeadTest : public NewHeadTest {
 protected:
  explicit NewestHeadTest(bool durable_at_once = true) : NewHeadTest(8, durable_at_once) {}
  Task<void> ask_for_newest() {
    status_ = co_await begin_with_newest_head(node_.reactor(), parts_.log);
    answered_ = true;
  }
  StatusCode begin() {
    tasks_.spawn(ask_for_newest());
    EXPECT_TRUE(sim_.run_until([this] { return answered_; }, 10s));
    return status_.code();
  }
  void open_one_ahead() {
    const uint64_t head = parts_.log.head().segment_id();
    for (int i = 0; i < 5; ++i) append(1'000'000);
    ASSERT_EQ(parts_.log.head().segment_id(), head);
    ASSERT_EQ(parts_.log.newest_head(), head + 1);
  }
  Status status_;
};

TEST_F(NewestHeadTest, OneThatWasOpenedAheadTakesData) {
  open_one_ahead();
  const uint64_t ahead = parts_.log.newest_head();
  EXPECT_EQ(begin(), StatusCode::kOk);
  EXPECT_EQ(parts_.log.head().segment_id(), ahead);
}

TEST_F(NewestHeadTest, NoHeadIsRolledIfNoneWasOpenedAhead) {
  append(100);
  const uint64_t head = parts_.log.head().segment_id();
  EXPECT_EQ(begin(), StatusCode::kOk);
  EXPECT_EQ(parts_.log.newest_head(), head);
}

class NewestHeadThatHangs : public NewestHeadTest {
 protected:
  NewestHeadThatHangs() : NewestHeadTest(false) {}
};

TEST_F(NewestHeadThatHangs, IsNotWaitedForForEver) {
  open_one_ahead();
  EXPECT_EQ(begin(), StatusCode::kRetry) << "the head before it is not closed on its replicas";
}

class NewHeadThatHangs : public NewHeadTest {
 protected:
  NewHeadThatHangs() : NewHeadTest(8, false) {}
};

TEST_F(NewHeadThatHangs, IsNotWaitedForForEver) {
  const auto head = roll();
  ASSERT_FALSE(head.has_value());
  EXPECT_EQ(head.error(), StatusCode::kRetry);
}

class NewHeadWithoutMemory : public NewHeadTest {
 protected:
  NewHeadWithoutMemory() : NewHeadTest(1) {}
};

TEST_F(NewHeadWithoutMemory, IsRefused) {
  const auto head = roll();
  ASSERT_FALSE(head.has_value());
  EXPECT_EQ(head.error(), StatusCode::kRetry);
}

TEST_F(NewHeadWithoutMemory, IsWaitedForWhileCleaningHelps) {
  parts_.log.set_cleaning_helps(true, parts_.log.segment_changes());
  tasks_.spawn(ask());
  sim_.run_for(1s);
  ASSERT_FALSE(answered_);
  parts_.log.set_cleaning_helps(false, parts_.log.segment_changes());
  ASSERT_TRUE(sim_.run_until([this] { return answered_; }, 10ms));
  ASSERT_FALSE(head_.has_value());
  EXPECT_EQ(head_.error(), StatusCode::kRetry);
}

}  // namespace
}  // namespace ramcloud::master
