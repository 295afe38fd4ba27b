// A large log that small objects fill to the last byte: deletes spread over all of its segments, so
// each of them has little to win. Small segments, so that many take little memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "store/invariants.h"
#include "store/testing/cleaning_rig.h"

namespace ramcloud::store {
namespace {

using testing::CleaningRig;
using ::testing::IsEmpty;

class LargeLog : public ::testing::TestWithParam<bool> {
 protected:
  static log::CleanerOptions options() {
    log::CleanerOptions options;
    options.balancer.compaction = GetParam();
    return options;
  }
  static std::string key_of(size_t number) { return "key" + std::to_string(1'000'000 + number); }
  /// Until there is no memory for more.
  void fill() {
    while (t_.write(key_of(keys_), "value") == StatusCode::kOk) ++keys_;
    ASSERT_FALSE(t_.parts.log.cleaning_helps());
  }

  CleaningRig t_{48, true, options(), 1 << 18};
  size_t keys_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Levels, LargeLog, ::testing::Bool(),
                         [](const auto& two) { return two.param ? "two_level" : "one_level"; });

TEST_P(LargeLog, ATableThatIsDroppedMakesRoomInAFullOne) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_TRUE(t_.store.drop_table(1).ok());
  t_.store.may_purge(t_.store.drops());
  bool more = true;
  for (int i = 0; more && i < 10'000'000; ++i) {
    more = t_.store.purge_step();
    const bool worked = t_.worker.step();
    t_.replicate();
    t_.reclaim();
    ASSERT_TRUE(worked || !t_.store.purge_waits() || t_.parts.log.cleaning_helps())
        << t_.describe();
  }
  ASSERT_FALSE(more) << t_.describe();
  ASSERT_TRUE(t_.store.take_tablet(1, 0, ~uint64_t{0}).ok());
  EXPECT_EQ(t_.write("new", "value"), StatusCode::kOk) << t_.describe();
  EXPECT_THAT(Invariants(t_.store).check(), IsEmpty());
}

TEST_P(LargeLog, DeletesInAnyOrderMakeRoomInAFullOne) {
  ASSERT_NO_FATAL_FAILURE(fill());
  Random random(1);
  std::vector<size_t> order(keys_);
  for (size_t i = 0; i < keys_; ++i) order[i] = i;
  for (size_t i = keys_; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (size_t i = 0; i < keys_; ++i) {
    ASSERT_EQ(t_.remove(key_of(order[i])), StatusCode::kOk)
        << i << " of " << keys_ << ": " << t_.describe();
  }
  EXPECT_EQ(t_.store.object_count(1), 0u);
  EXPECT_EQ(t_.write("new", "value"), StatusCode::kOk) << t_.describe();
  EXPECT_THAT(Invariants(t_.store).check(), IsEmpty());
}

}  // namespace
}  // namespace ramcloud::store
