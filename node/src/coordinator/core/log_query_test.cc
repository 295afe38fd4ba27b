// Queries for the log of a dead master: who is asked what, and when again.
#include "coordinator/core/log_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/testing/recovery_fixture.h"

namespace ramcloud {
namespace {

using ::testing::ElementsAre;
using ::testing::Ge;
using testing::OneTablet;

constexpr uint64_t kNoneClosed = ~uint64_t{0};

/// Above the closed head 2 there is a side segment, 3: what it is shows when it was read.
class VersionsOfAClosedHead : public OneTablet {
 protected:
  /// Both holders have 3; only the second one has 2, and it takes its time.
  void make_with_a_side_segment() {
    make(4, {.segments = 4, .scanned = false});
    for (const size_t i : {0, 1}) {
      for (auto& replica : replicas_of(i)) {
        if (replica.segment_id == 3) replica.flags &= ~uint32_t{Flag::kIsHead};
        if (replica.segment_id == 2) replica.flags |= Flag::kIsHead;
      }
    }
    std::erase_if(replicas_of(0), [](const auto& replica) { return replica.segment_id == 2; });
    holder(1).query_takes = 20ms;
  }
  std::vector<wire::RecoveryReplica>& replicas_of(size_t i) { return holder(i).replicas.at(dead_); }
  const std::vector<uint64_t>& asked(size_t i) { return holder(i).scans[dead_]; }
  /// From the verdict until the log was found.
  Duration query_took() {
    const auto& ended = cluster.coordinator->status().recoveries_ended;
    const auto& times = ended.at(0).progress.timeline;
    return std::chrono::milliseconds(times.queried.value() - times.verdict.value());
  }
};

/// It was asked to read more than it had answered: it is asked again once that answer is there.
TEST_F(VersionsOfAClosedHead, AnAnswerThatWasOnItsWayIsAskedForAgainAtOnce) {
  make_with_a_side_segment();
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_THAT(asked(1), ElementsAre(kNoneClosed, 3, 2));
  EXPECT_LT(query_took(), cluster.options.recoveries.query.look / 4);
}

/// The first answer said that it must be read, and who gave it says no more.
TEST_F(VersionsOfAClosedHead, WhoAnswersLaterReadsItForOneThatIsSilent) {
  make(4, {.scanned = false});
  holder(1).query_takes = 20ms;
  holder(0).on_call = [this](wire::Opcode opcode) {
    if (opcode == wire::Opcode::kRecoveryQuery) holder(0).keeps_silent = !asked(0).empty();
  };
  kill(dead_);
  ASSERT_TRUE(wait_until_served());
  EXPECT_THAT(asked(0), ElementsAre(kNoneClosed, 2));
  EXPECT_THAT(asked(1), ElementsAre(kNoneClosed, 2));
  EXPECT_LT(query_took(), cluster.options.recoveries.query.look / 4);
}

/// Nothing can be read: that is not asked for in a loop.
TEST_F(VersionsOfAClosedHead, WhoDoesNotReadItIsAskedNowAndThen) {
  make(4, {.scanned = false});
  for (const size_t i : {0, 1}) holder(i).scans_nothing = true;
  kill(dead_);
  cluster.run_for(20s);
  EXPECT_TRUE(owns(dead_));
  for (const size_t i : {0, 1}) {
    EXPECT_THAT(asked(i).size(), ::testing::AllOf(Ge(4u), ::testing::Le(12u)));
    holder(i).scans_nothing = false;
  }
  ASSERT_TRUE(in_phase(dead_, Phase::kQuerying)) << "it waits for nobody";
  ASSERT_TRUE(wait_until_served());
}

}  // namespace
}  // namespace ramcloud
