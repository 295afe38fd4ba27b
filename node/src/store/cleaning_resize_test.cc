// Cleaning while the log grows and shrinks: nothing is lost, no writer waits for ever, and the log
// reaches each accepted size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/testing/sanitizer.h"
#include "store/invariants.h"
#include "store/testing/cleaning_rig.h"

namespace ramcloud::store {
namespace {

using testing::CleaningRig;
using ::testing::IsEmpty;

constexpr uint64_t kSegment = log::kSegmentBytes;
constexpr uint32_t kFirst = 12, kMost = 32;  // segments

log::CleanerOptions options_of(bool two_level) {
  log::CleanerOptions options;
  options.balancer.compaction = two_level;
  return options;
}

struct ResizingRig : CleaningRig {
  ResizingRig(bool immediate, bool two_level)
      : CleaningRig(kFirst, immediate, options_of(two_level), 1 << 14, kMost) {}
  log::Log& log() { return parts.log; }
  uint64_t live_bytes() {
    uint64_t bytes = 0;
    for (const auto& tablet : store.tablets()) bytes += tablet.object_bytes;
    return bytes;
  }
  log::Log::Sizes sizes() { return log().sizes(live_bytes()); }
  void expect_within_the_limit() {
    const log::Arena::Sizes now = parts.arena.sizes();
    ASSERT_LE(now.used, now.limit);
    ASSERT_LE(now.limit, now.held);
  }
  /// Cleaning and slices of the resize, until it is done.
  void finish() {
    for (int i = 0; i < 1'000'000 && !sizes().done(); ++i) {
      (void)worker.step();
      replicate();
      reclaim();
      (void)log().continue_resize();
      expect_within_the_limit();
    }
    EXPECT_TRUE(sizes().done()) << describe();
  }
};

/// Whether memory is cleaned in two levels.
class CleaningResize : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Levels, CleaningResize, ::testing::Bool());

TEST_P(CleaningResize, ALogFullOfDeadObjectsShrinksWithNobodysHelp) {
  ResizingRig rig(true, GetParam());
  const std::string value(200'000, 'v');
  const auto fits = [&] { return rig.parts.arena.sizes().used <= 8 * log::kSegletsPerSegment; };
  for (int i = 0; i < 1'000 || fits(); ++i) {  // the cleaner may have freed much just before
    ASSERT_LT(i, 2'000);
    ASSERT_EQ(rig.write("k" + std::to_string(i % 40), value), StatusCode::kOk);
  }
  ASSERT_TRUE(rig.log().resize(8 * kSegment, rig.live_bytes()).ok());
  rig.finish();
  for (int i = 0; i < 40; ++i) EXPECT_EQ(rig.read("k" + std::to_string(i)), value);
  EXPECT_EQ(rig.write("k", value), StatusCode::kOk) << rig.describe();
}

/// Writers have their heads while it goes on.
TEST_P(CleaningResize, WritesGoOnWhileItShrinks) {
  ResizingRig rig(false, GetParam());
  const std::string value(100'000, 'v');
  ASSERT_TRUE(rig.log().resize(kMost * kSegment, 0).ok());
  rig.finish();
  for (int i = 0; i < 3'000; ++i) {
    ASSERT_EQ(rig.write("k" + std::to_string(i % 100), value), StatusCode::kOk);
  }
  ASSERT_TRUE(rig.log().resize(8 * kSegment, rig.live_bytes()).ok());
  int during = 0;
  for (int i = 0; i < 100'000 && !rig.sizes().done(); ++i, ++during) {
    ASSERT_EQ(rig.write("k" + std::to_string(i % 100), value), StatusCode::kOk) << rig.describe();
    (void)rig.worker.step();
    rig.replicate();
    rig.reclaim();
    (void)rig.log().continue_resize();
    rig.expect_within_the_limit();
  }
  EXPECT_TRUE(rig.sizes().done()) << rig.describe();
  EXPECT_GT(during, 10);
}

/// Any sizes, and writes, overwrites and deletes between them, against a model.
void resize_at_random(uint64_t seed, bool two_level) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  ResizingRig rig(random.chance(0.5), two_level);
  rig.random = Random(seed + 1'000);
  std::map<std::string, std::string> model;
  int accepted = 0, refused = 0;
  for (int round = 0; round < 12; ++round) {
    const uint64_t wanted = (8 + random.below(kMost - 7)) * kSegment;
    const uint64_t least = rig.sizes().least;
    const Status status = rig.log().resize(wanted, rig.live_bytes());
    ASSERT_EQ(status.ok(), wanted >= least) << status.to_string();
    ++(status.ok() ? accepted : refused);
    const uint64_t keys = 20 + random.below(400);
    for (int i = 0; i < 250; ++i) {
      const std::string key = "k" + std::to_string(random.below(keys));
      if (random.chance(0.3)) {
        const StatusCode removed = rig.remove(key);
        ASSERT_TRUE(removed == StatusCode::kOk || removed == StatusCode::kOutOfMemory);
        if (removed == StatusCode::kOk) model.erase(key);
      } else {
        const std::string value(random.below(300'000), static_cast<char>('a' + i % 26));
        const StatusCode written = rig.write(key, value);
        ASSERT_TRUE(written == StatusCode::kOk || written == StatusCode::kOutOfMemory);
        if (written == StatusCode::kOk) model[key] = value;
      }
      (void)rig.log().continue_resize();
      rig.expect_within_the_limit();
    }
    ASSERT_THAT(Invariants(rig.store).check(), IsEmpty());
    // Live data may have filled the memory that was to be given back; after deletes the shrink
    // completes.
    while (rig.live_bytes() * 11 / 10 + 5 * kSegment > rig.sizes().target && !model.empty()) {
      ASSERT_EQ(rig.remove(model.begin()->first), StatusCode::kOk) << rig.describe();
      model.erase(model.begin());
    }
    rig.finish();
  }
  EXPECT_GT(accepted, 3);
  for (const auto& [key, value] : model) ASSERT_EQ(rig.read(key), value) << key;
  EXPECT_EQ(rig.store.object_count(1), model.size());
  EXPECT_THAT(Invariants(rig.store).check(), IsEmpty());
}

TEST_P(CleaningResize, GetsToEverySizeThatIsAccepted) {
  const uint64_t seeds = ramcloud::testing::kSanitized ? 1 : 3;
  for (uint64_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
    resize_at_random(seed, GetParam());
  }
}

}  // namespace
}  // namespace ramcloud::store
