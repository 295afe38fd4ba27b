#include "log/changed_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/random.h"

namespace ramcloud::log {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(ChangedSegments, EachIsTakenOnce) {
  ChangedSegments changed(10'000);
  for (const uint32_t segment : {0u, 63u, 64u, 9'999u, 64u}) changed.mark(segment);
  EXPECT_THAT(changed.take(100), UnorderedElementsAre(0, 63, 64, 9'999));
  EXPECT_THAT(changed.take(100), IsEmpty());
  changed.mark(63);
  EXPECT_THAT(changed.take(100), UnorderedElementsAre(63));
}

TEST(ChangedSegments, SomeAreLeftForTheNextTime) {
  ChangedSegments changed(100'000);
  Random random(1);
  std::set<uint32_t> left;
  for (int i = 0; i < 1'000; ++i) {
    const auto segment = static_cast<uint32_t>(random.below(100'000));
    changed.mark(segment);
    left.insert(segment);
  }
  while (!left.empty()) {
    const auto taken = changed.take(10);
    ASSERT_FALSE(taken.empty()) << left.size() << " are forgotten";
    ASSERT_LE(taken.size(), 10u + 63);
    for (const uint32_t segment : taken) ASSERT_EQ(left.erase(segment), 1u) << segment;
  }
  EXPECT_THAT(changed.take(10), IsEmpty());
}

/// A segment that is marked during a take() is found by it, or by the next one.
TEST(ChangedSegments, NoneIsForgottenBesideOneThatTakes) {
  constexpr uint32_t kSegments = 50'000;
  ChangedSegments changed(kSegments);
  std::set<uint32_t> found;
  {
    std::jthread first([&] {
      for (uint32_t i = 0; i < kSegments; i += 2) changed.mark(i);
    });
    std::jthread second([&] {
      for (uint32_t i = 1; i < kSegments; i += 2) changed.mark(i);
    });
    for (int i = 0; i < 1'000; ++i) {
      for (const uint32_t segment : changed.take(100)) found.insert(segment);
    }
  }
  for (const uint32_t segment : changed.take(kSegments)) found.insert(segment);
  EXPECT_EQ(found.size(), kSegments);
}

}  // namespace
}  // namespace ramcloud::log
