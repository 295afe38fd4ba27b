// The calls that a job requests from its engine, for every answer of the kernel.
#include "runtime/disk_job.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

namespace ramcloud {
namespace {

class DiskJobTest : public ::testing::Test {
 protected:
  DiskJobTest() { file_->path = "/d/f"; }
  template <typename Job, typename... Arguments>
  std::unique_ptr<Job> make(Arguments&&... arguments) {
    return std::make_unique<Job>(
        file_, alive_, [this](Status s) { said_.push_back(std::move(s)); },
        std::forward<Arguments>(arguments)...);
  }
  /// The only call that may begin, and its end.
  static DiskCall one_call(DiskJob& job, int64_t result) {
    DiskCall call, other;
    EXPECT_TRUE(job.next(call));
    EXPECT_FALSE(job.next(other)) << "a second call";
    EXPECT_FALSE(job.over());
    job.ended(call, result);
    return call;
  }
  static bool ends(DiskJob& job) {
    DiskCall call;
    return !job.next(call) && job.over();
  }
  StatusCode outcome(DiskJob& job) {
    EXPECT_TRUE(ends(job));
    job.report();
    EXPECT_EQ(said_.size(), 1u);
    return said_.at(0).code();
  }
  std::shared_ptr<OpenFile> file_ = std::make_shared<OpenFile>();
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::vector<Status> said_;
};

TEST_F(DiskJobTest, ASyncIsRepeatedWhenInterruptedAndErrorsNameTheFile) {
  const auto job = make<SyncJob>();
  EXPECT_EQ(one_call(*job, -EINTR).kind, DiskCall::Kind::kSync);
  one_call(*job, -EIO);
  EXPECT_EQ(outcome(*job), StatusCode::kIoError);
  EXPECT_NE(said_[0].message().find("sync '/d/f'"), std::string::npos) << said_[0].message();
}

TEST_F(DiskJobTest, WhoIsGoneIsNotTold) {
  const auto job = make<SyncJob>();
  alive_.reset();
  auto alive = std::make_shared<bool>(true);
  int told = 0;
  SyncJob other(file_, alive, [&](const Status&) { ++told; });
  job->absorb(other);
  one_call(*job, 0);
  EXPECT_TRUE(ends(*job));
  job->report();
  other.report();
  EXPECT_TRUE(said_.empty());
  EXPECT_EQ(told, 1);
}

TEST_F(DiskJobTest, AllocatingTakesTheCheapestWayThereIs) {
  const auto job = make<AllocateJob>(uint64_t{4096}, uint64_t{100'000});
  EXPECT_EQ(one_call(*job, -EOPNOTSUPP).mode, FALLOC_FL_ZERO_RANGE);
  EXPECT_EQ(one_call(*job, 0).mode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  const DiskCall fill = one_call(*job, -EOPNOTSUPP);
  EXPECT_EQ(fill.mode, 0);
  EXPECT_EQ(fill.offset, 4096u);
  EXPECT_EQ(fill.length, 100'000u);
  const DiskCall zeros = one_call(*job, 1000);
  EXPECT_EQ(zeros.kind, DiskCall::Kind::kWrite);
  EXPECT_EQ(zeros.offset, 4096u);
  const DiskCall more = one_call(*job, 64 << 10);
  EXPECT_EQ(more.offset, 5096u);
  const DiskCall rest = one_call(*job, 100'000 - 1000 - (64 << 10));
  EXPECT_EQ(rest.vectors[0].iov_len, 100'000u - 1000 - (64 << 10));
  EXPECT_EQ(outcome(*job), StatusCode::kOk);
}

TEST_F(DiskJobTest, AFullDiskIsNoSpace) {
  for (const int error : {ENOSPC, EDQUOT}) {
    const auto job = make<AllocateJob>(uint64_t{0}, uint64_t{4096});
    one_call(*job, -error);
    EXPECT_EQ(outcome(*job), StatusCode::kNoSpace);
    EXPECT_NE(said_[0].message().find("allocate '/d/f'"), std::string::npos);
    said_.clear();
  }
}

class WriteJobTest : public DiskJobTest {
 protected:
  static std::string text_of(const DiskCall& call) {
    std::string text;
    for (const iovec& vector : call.vectors) {
      text.append(static_cast<const char*>(vector.iov_base), vector.iov_len);
    }
    return text;
  }
  std::unique_ptr<WriteJob> write(std::initializer_list<DirectWrite> writes) {
    return make<WriteJob>(std::span(writes.begin(), writes.size()), keep_);
  }
  std::shared_ptr<const void> keep_ = std::make_shared<int>(0);
};

TEST_F(WriteJobTest, NeighboursAreOneCallThatSyncsWhatItWrites) {
  auto job = write({{100, "abc"}, {103, "defg"}});
  const DiskCall call = one_call(*job, 7);
  EXPECT_EQ(call.kind, DiskCall::Kind::kWrite);
  EXPECT_EQ(call.mode, RWF_DSYNC);
  EXPECT_EQ(call.offset, 100u);
  EXPECT_EQ(call.vectors.size(), 2u);
  EXPECT_GT(keep_.use_count(), 1);
  EXPECT_EQ(outcome(*job), StatusCode::kOk);
  job.reset();
  EXPECT_EQ(keep_.use_count(), 1);
}

TEST_F(WriteJobTest, WhatAShortWriteLeavesIsWrittenNext) {
  const auto job = write({{100, "abc"}, {103, "defg"}});
  one_call(*job, 2);
  DiskCall call;
  ASSERT_TRUE(job->next(call));
  EXPECT_EQ(call.offset, 102u);
  EXPECT_EQ(text_of(call), "cdefg");
  job->ended(call, 1);
  ASSERT_TRUE(job->next(call));
  EXPECT_EQ(call.offset, 103u);
  EXPECT_EQ(text_of(call), "defg");
  job->ended(call, -EINTR);
  ASSERT_TRUE(job->next(call));
  EXPECT_EQ(text_of(call), "defg");
  job->ended(call, 4);
  EXPECT_EQ(outcome(*job), StatusCode::kOk);
}

TEST_F(WriteJobTest, SeveralPlacesAreWrittenSideBySideAndThenSynced) {
  const auto job = write({{100, "abc"}, {200, "de"}, {300, "f"}});
  DiskCall calls[3], none;
  for (DiskCall& call : calls) {
    ASSERT_TRUE(job->next(call));
    EXPECT_EQ(call.mode, 0);
  }
  EXPECT_FALSE(job->next(none));
  EXPECT_EQ(calls[0].offset, 100u);
  EXPECT_EQ(calls[2].offset, 300u);
  job->ended(calls[1], 2);
  job->ended(calls[2], 1);
  EXPECT_FALSE(job->next(none)) << "the first is not there yet";
  job->ended(calls[0], 3);
  EXPECT_EQ(one_call(*job, 0).kind, DiskCall::Kind::kSync);
  EXPECT_EQ(outcome(*job), StatusCode::kOk);
}

TEST_F(WriteJobTest, AnErrorEndsItWhenNothingIsUnderWayAnyMore) {
  const auto job = write({{100, "abc"}, {200, "de"}});
  DiskCall first, second, none;
  ASSERT_TRUE(job->next(first));
  ASSERT_TRUE(job->next(second));
  job->ended(first, -ENOSPC);
  EXPECT_FALSE(job->next(none));
  EXPECT_FALSE(job->over()) << "the kernel still reads the bytes";
  job->ended(second, 2);
  EXPECT_EQ(outcome(*job), StatusCode::kNoSpace) << "and no sync";
}

TEST_F(WriteJobTest, WritingNothingIsAnError) {
  const auto job = write({{100, "abc"}});
  one_call(*job, 0);
  EXPECT_EQ(outcome(*job), StatusCode::kIoError);
}

TEST_F(DiskJobTest, WhatAShortReadLeavesIsReadNext) {
  const auto to = std::make_shared<std::string>(5, '?');
  auto job = make<ReadJob>(uint64_t{100}, std::span(*to), to);
  const DiskCall first = one_call(*job, 2);
  EXPECT_EQ(first.kind, DiskCall::Kind::kRead);
  EXPECT_EQ(first.offset, 100u);
  DiskCall call;
  ASSERT_TRUE(job->next(call));
  EXPECT_EQ(call.offset, 102u);
  EXPECT_EQ(call.vectors[0].iov_base, to->data() + 2);
  EXPECT_EQ(call.vectors[0].iov_len, 3u);
  job->ended(call, 3);
  EXPECT_EQ(outcome(*job), StatusCode::kOk);
  EXPECT_EQ(to.use_count(), 2) << "the job keeps the buffer";
  job.reset();
  EXPECT_EQ(to.use_count(), 1);
}

TEST_F(DiskJobTest, AFileThatEndsBeforeIsAnError) {
  const auto to = std::make_shared<std::string>(5, '?');
  const auto job = make<ReadJob>(uint64_t{100}, std::span(*to), to);
  one_call(*job, 0);
  EXPECT_EQ(outcome(*job), StatusCode::kIoError);
}

}  // namespace
}  // namespace ramcloud
