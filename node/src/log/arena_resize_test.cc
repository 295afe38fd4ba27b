// Arena, resizing: memory in segments stays as it is when the limit moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/random.h"
#include "log/arena.h"
#include "log/segment.h"

namespace ramcloud::log {
namespace {

constexpr uint32_t kWhole = kSegletsPerSegment;
constexpr uint64_t kMost = 12;

Arena::Options options(uint64_t most_segments = kMost, bool prefault = false) {
  return {
      .try_huge_pages = false, .prefault = prefault, .most_bytes = most_segments * kSegmentBytes};
}

void continue_resize(Arena& arena) {
  while (arena.continue_resize()) {
  }
}

/// Seglets with a mark at both ends, so that a page that was given back or used twice is detected.
class Marked {
 public:
  Marked(Arena& arena, uint32_t count, uint64_t mark) : arena_(arena), mark_(mark) {
    std::array<char*, kWhole> seglets{};
    const auto wanted = std::span(seglets).first(count);
    if (!arena_.allocate(*segment_, wanted)) return;
    seglets_.assign(wanted.begin(), wanted.end());
    for (char* seglet : seglets_) {
      for (const uint64_t at : {uint64_t{0}, uint64_t{kSegletBytes} - sizeof mark}) {
        std::memcpy(seglet + at, &mark_, sizeof mark_);
      }
    }
  }
  bool got() const { return !seglets_.empty(); }
  bool intact() const {
    for (const char* seglet : seglets_) {
      for (const uint64_t at : {uint64_t{0}, uint64_t{kSegletBytes} - sizeof mark_}) {
        if (load<uint64_t>(seglet + at) != mark_) return false;
      }
      if (arena_.segment_of(seglet) != segment_.get()) return false;
    }
    return true;
  }
  const std::vector<char*>& seglets() const { return seglets_; }
  void free() { arena_.free(std::exchange(seglets_, {})); }

 private:
  Arena& arena_;
  std::unique_ptr<Segment> segment_ = std::make_unique<Segment>();
  uint64_t mark_;
  std::vector<char*> seglets_;
};

TEST(ArenaResize, GrowsIntoAddressSpaceThatWasReserved) {
  Arena arena(2 * uint64_t{kSegmentBytes}, options());
  EXPECT_EQ(arena.most_segments(), kMost);
  arena.set_target(5);
  EXPECT_EQ(arena.total_segments(), 2u) << "memory that is not there yet is not counted";
  ASSERT_TRUE(arena.continue_resize());
  EXPECT_GT(arena.total_seglets(), 2 * kWhole) << "in slices";
  EXPECT_LT(arena.total_seglets(), 5 * kWhole);
  continue_resize(arena);
  EXPECT_TRUE(arena.sizes().at_target());
  EXPECT_EQ(arena.free_seglets(), 5 * kWhole);
  std::vector<std::unique_ptr<Marked>> all;
  for (uint64_t i = 0; i < 5; ++i) all.push_back(std::make_unique<Marked>(arena, kWhole, i));
  for (const auto& one : all) EXPECT_TRUE(one->got() && one->intact());
  EXPECT_FALSE(Marked(arena, 1, 9).got());
}

TEST(ArenaResize, WhatIsGivenBackIsZeroWhenItComesAgain) {
  Arena arena(4 * uint64_t{kSegmentBytes}, options(kMost, true));
  std::vector<std::unique_ptr<Marked>> all;
  for (uint64_t i = 0; i < 4; ++i) all.push_back(std::make_unique<Marked>(arena, kWhole, i + 1));
  std::set<const char*> marked;
  for (size_t i = 1; i < 4; ++i) {
    marked.insert(all[i]->seglets().begin(), all[i]->seglets().end());
    all[i]->free();
  }
  arena.set_target(1);
  arena.lower_limit(0);
  continue_resize(arena);
  EXPECT_EQ(arena.sizes().held, kWhole);
  EXPECT_TRUE(all[0]->intact());
  arena.set_target(4);
  continue_resize(arena);
  std::array<char*, 3 * kWhole> again{};
  Segment segment;
  ASSERT_TRUE(arena.allocate(segment, again));
  for (const char* seglet : again) {
    EXPECT_TRUE(marked.contains(seglet)) << "what was open is used first";
    EXPECT_EQ(load<uint64_t>(seglet), 0u);
  }
  EXPECT_TRUE(all[0]->intact());
}

TEST(ArenaResize, TheLimitSinksWithWhatIsFreed) {
  Arena arena(8 * uint64_t{kSegmentBytes}, options());
  Marked a(arena, kWhole, 1), b(arena, kWhole, 2), c(arena, kWhole, 3), d(arena, kWhole, 4);
  arena.set_target(3);
  EXPECT_EQ(arena.total_seglets(), 8 * kWhole) << "until it is known what must stay free";
  arena.lower_limit(kWhole);
  EXPECT_EQ(arena.total_seglets(), 5 * kWhole);
  continue_resize(arena);
  EXPECT_EQ(arena.sizes().held, 5 * kWhole);
  EXPECT_FALSE(arena.sizes().at_target());
  Marked e(arena, kWhole, 5);
  EXPECT_TRUE(e.got());
  EXPECT_FALSE(Marked(arena, 1, 6).got()) << "not above the limit";
  arena.lower_limit(kWhole);
  EXPECT_EQ(arena.total_seglets(), 5 * kWhole) << "it never rises";
  for (Marked* one : {&a, &b, &c}) one->free();
  arena.lower_limit(kWhole);
  EXPECT_EQ(arena.total_seglets(), 3 * kWhole);
  EXPECT_EQ(arena.free_seglets(), kWhole);
  continue_resize(arena);
  EXPECT_TRUE(arena.sizes().at_target());
  EXPECT_TRUE(d.intact() && e.intact());
}

TEST(ArenaResize, AnotherTargetTakesTheFirstOnesPlace) {
  Arena arena(8 * uint64_t{kSegmentBytes}, options());
  arena.set_target(2);
  arena.lower_limit(0);
  ASSERT_TRUE(arena.continue_resize());
  const uint32_t held = arena.sizes().held;
  ASSERT_LT(held, 8 * kWhole);
  ASSERT_GT(held, 4 * kWhole);
  arena.set_target(4);
  EXPECT_EQ(arena.total_seglets(), 4 * kWhole) << "what was not given back is used again at once";
  continue_resize(arena);
  EXPECT_TRUE(arena.sizes().at_target());
}

/// Random allocations, frees and resizes, against a model of the owners.
TEST(ArenaResize, KeepsWhatIsUsedWhateverTheLimitDoes) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Arena arena(4 * uint64_t{kSegmentBytes}, options());
    std::vector<std::unique_ptr<Marked>> all;
    uint32_t used = 0;
    for (uint64_t step = 0; step < 600; ++step) {
      const uint64_t what = random.below(10);
      const uint32_t limit = arena.total_seglets();
      if (what < 4) {
        const auto count = static_cast<uint32_t>(1 + random.below(kWhole));
        auto one = std::make_unique<Marked>(arena, count, seed * 1'000'000 + step);
        ASSERT_EQ(one->got(), used + count <= limit);
        if (!one->got()) continue;
        used += count;
        all.push_back(std::move(one));
      } else if (what < 7 && !all.empty()) {
        std::swap(all[random.below(all.size())], all.back());
        ASSERT_TRUE(all.back()->intact());
        used -= static_cast<uint32_t>(all.back()->seglets().size());
        all.back()->free();
        all.pop_back();
      } else if (what == 7) {
        arena.set_target(static_cast<uint32_t>(1 + random.below(kMost)));
      } else if (what == 8) {
        arena.lower_limit(static_cast<uint32_t>(random.below(2 * kWhole)));
      } else {
        (void)arena.continue_resize();
      }
      const Arena::Sizes now = arena.sizes();
      ASSERT_EQ(now.used, used);
      ASSERT_LE(now.used, now.limit);
      ASSERT_LE(now.limit, now.held);
      ASSERT_EQ(arena.free_seglets(), now.limit - now.used);
    }
    for (const auto& one : all) ASSERT_TRUE(one->intact());
  }
}

TEST(ArenaResize, ThreadsTakeAndFreeBesideIt) {
  Arena arena(6 * uint64_t{kSegmentBytes}, options());
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (uint64_t self = 1; self <= 2; ++self) {
    threads.emplace_back([&, self] {
      Random random(self);
      std::vector<std::unique_ptr<Marked>> mine;
      for (uint64_t i = 0; !stop.load() || taken.load() == 0; ++i) {
        auto one = std::make_unique<Marked>(arena, static_cast<uint32_t>(1 + random.below(kWhole)),
                                            self << 40 | i);
        if (one->got()) {
          ++taken;
          mine.push_back(std::move(one));
        }
        if (mine.empty() || random.chance(0.4)) continue;
        std::swap(mine[random.below(mine.size())], mine.back());
        ASSERT_TRUE(mine.back()->intact());
        mine.back()->free();
        mine.pop_back();
      }
      for (const auto& one : mine) {
        ASSERT_TRUE(one->intact());
        one->free();
      }
    });
  }
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    arena.set_target(static_cast<uint32_t>(2 + random.below(kMost - 1)));
    for (int slice = 0; slice < 20; ++slice) {
      arena.lower_limit(static_cast<uint32_t>(random.below(kWhole)));
      (void)arena.continue_resize();
      const Arena::Sizes now = arena.sizes();
      EXPECT_LE(now.used, now.limit);
      EXPECT_LE(now.limit, now.held);
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  arena.set_target(1);
  arena.lower_limit(0);
  continue_resize(arena);
  EXPECT_TRUE(arena.sizes().at_target());
  EXPECT_EQ(arena.sizes().used, 0u);
}

}  // namespace
}  // namespace ramcloud::log
