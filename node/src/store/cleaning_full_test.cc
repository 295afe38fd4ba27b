// Long runs in a log that is all but full, with sizes that change as in the worst cases for
// allocators [Rumble14 §2, table 1; figure 7]: no write fails while cleaning can help, nothing is
// lost, and nothing waits for ever. Backups are slow, or one of them is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/sanitizer.h"
#include "store/invariants.h"
#include "store/testing/cleaning_rig.h"

namespace ramcloud::store {
namespace {

using testing::CleaningRig;
using ::testing::IsEmpty;

/// Sizes before, which part of it is deleted, and sizes after: W1 to W8. And the worst: each size
/// leaves holes for none of the next.
struct Workload {
  std::string name;
  std::vector<std::pair<uint32_t, uint32_t>> sizes;  // of one time after the other, from and to
  double deleted = 0;                                // between two times
  bool two_level = false;
  uint32_t utilisation = 98;  // of what writers may have, in percent
  uint32_t fillers = 0;       // bytes of one in eight values, whatever the time
  uint32_t longer = 1;        // than others, by this factor: large objects cost little
  uint32_t cold = 0;          // in ten objects: written once
};
std::ostream& operator<<(std::ostream& out, const Workload& workload) {
  return out << workload.name;
}

std::vector<Workload> one_level() {
  if (ramcloud::testing::kSanitized) {
    return {{"W7", {{1'000, 2'000}, {1'500, 2'500}}, 0.9}, {"Mixed", {{1, 1'048'576}}, 0}};
  }
  return {
      {"W1", {{100, 100}}, 0},
      {"W2", {{100, 100}, {130, 130}}, 0},
      {"W3", {{100, 100}, {130, 130}}, 0.9},
      {"W4", {{100, 150}, {200, 250}}, 0},
      {"W5", {{100, 150}, {200, 250}}, 0.9},
      {"W6", {{100, 200}, {1'000, 2'000}}, 0.5},
      {"W7", {{1'000, 2'000}, {1'500, 2'500}}, 0.9},
      {"W8", {{50, 150}, {5'000, 15'000}}, 0.9},
      {.name = "Hot and cold", .sizes = {{100, 100}}, .cold = 7},
      {"Mixed", {{1, 1'048'576}}, 0},
      {"Growing", {{1, 100}, {1'000, 4'000}, {60'000, 70'000}, {900'000, 1'048'576}}, 0.5},
      {"Shrinking", {{900'000, 1'048'576}, {60'000, 70'000}, {1'000, 4'000}, {1, 100}}, 0.5},
      {"Nothing but large", {{1'048'576, 1'048'576}}, 0.3},
      // Seven of the largest and one that is a little smaller fill a head to its last seglet. Cleaning
      // orders them by age: a survivor has seven of the largest, with some bytes in one seglet more, and
      // none fits behind them.
      {.name = "Figure 7", .sizes = {{1'048'576, 1'048'576}}, .fillers = 1'040'000, .longer = 20},
  };
}

std::vector<Workload> workloads() {
  std::vector<Workload> all = one_level();
  for (const Workload& workload : one_level()) {
    const bool has_all_sizes = workload.name == "Mixed" || workload.fillers + workload.cold > 0;
    if (workload.sizes.size() == 1 && !has_all_sizes) continue;
    all.push_back(workload);
    all.back().name += " in two levels";
    all.back().two_level = true;
  }
  return all;
}

log::CleanerOptions options_of(const Workload& workload) {
  log::CleanerOptions options;
  options.balancer.compaction = workload.two_level;
  return options;
}

/// The memory that writers may take of an empty log.
uint64_t bytes_for_writers(const CleaningRig& t) {
  const uint32_t kept =
      t.parts.log.must_stay_free(log::MemoryPurpose::kWrites) + 2 * log::kSegletsPerSegment;
  return uint64_t{t.total_seglets() - kept} * log::kSegletBytes;
}

/// What a live object takes there: its entry, and its share of a survivor's groups.
uint64_t memory_of(uint64_t key_bytes, uint64_t value_bytes) {
  const uint64_t entry =
      sizeof(log::EntryHeader) + sizeof(log::ObjectBody) + key_bytes + value_bytes;
  return entry + 8 + entry / 50;
}

class LongRun {
 public:
  LongRun(CleaningRig& rig, const Workload& workload, uint64_t seed)
      : t_(rig), workload_(workload), random_(seed) {
    limit_ = bytes_for_writers(t_) * workload.utilisation / 100;
  }

  /// Each round writes `tenths` tenths of the live bytes.
  void run(uint64_t tenths) {
    for (size_t time = 0; time < workload_.sizes.size(); ++time) {
      if (time > 0) remove_some(workload_.deleted);
      const auto [from, to] = workload_.sizes[time];
      // Writes so much, or until memory is short.
      const uint64_t spare = time == 0 ? 5 * log::kSegmentBytes / 2 : 0;
      for (uint64_t written = 0;
           written < spare + limit_ + tenths * workload_.longer * limit_ / 10;) {
        uint32_t length = from + static_cast<uint32_t>(random_.below(to - from + 1));
        if (workload_.fillers > 0 && ++puts_ % 8 == 0) length = workload_.fillers;
        ASSERT_NO_FATAL_FAILURE(put(length)) << workload_.name << " time " << time;
        written += length + 60;
      }
    }
    EXPECT_THAT(Invariants(t_.store).check(), IsEmpty());
    for (const Object& object : objects_) {
      if (object.length == kNone) continue;
      ASSERT_EQ(t_.read(object.key), value_of(object)) << object.key;
    }
    const log::CleanerState state = t_.cleaner.state();
    EXPECT_GT(state.combined_runs + state.compaction_runs, 0u) << "memory was not short";
    if (workload_.two_level) EXPECT_GT(state.compaction_runs, 0u);
    while (live_ > 0) remove_some(1);
    EXPECT_EQ(t_.store.object_count(1), 0u);
  }

 private:
  static constexpr uint32_t kNone = ~0u;
  struct Object {
    std::string key;
    uint32_t length = kNone;
    uint64_t serial = 0;
  };
  static std::string value_of(const Object& object) {
    return std::string(object.length, static_cast<char>('a' + object.serial % 26));
  }
  /// A new one as long as there is room for it, else in the place of others.
  void put(uint32_t length) {
    size_t at = objects_.size();
    while (live_ + memory_of(12, length) > limit_) {
      if (objects_.empty()) return;
      do at = random_.below(objects_.size());
      while (at % 10 < workload_.cold);
      const Object& old = objects_[at];
      if (old.length != kNone &&
          live_ - memory_of(12, old.length) + memory_of(12, length) <= limit_) {
        live_ -= memory_of(12, old.length);
        break;
      }
      if (old.length != kNone) ASSERT_NO_FATAL_FAILURE(remove(at));
      at = objects_.size();
    }
    if (at == objects_.size() && !free_.empty()) {
      at = free_.back();
      free_.pop_back();
    }
    if (at == objects_.size()) objects_.push_back({"key" + std::to_string(at)});
    Object& object = objects_[at];
    object.length = length;
    object.serial = ++serial_;
    live_ += memory_of(12, length);
    t_.clock.advance(std::chrono::milliseconds(1));
    ASSERT_EQ(t_.write(object.key, value_of(object)), StatusCode::kOk)
        << live_ << " of " << limit_ << " bytes are live: " << t_.describe();
  }
  void remove(size_t at) {
    Object& object = objects_[at];
    ASSERT_EQ(t_.remove(object.key), StatusCode::kOk) << t_.describe();
    live_ -= memory_of(12, object.length);
    object.length = kNone;
    free_.push_back(at);
  }
  void remove_some(double share) {
    for (size_t at = 0; at < objects_.size(); ++at) {
      if (objects_[at].length == kNone || !random_.chance(share)) continue;
      ASSERT_NO_FATAL_FAILURE(remove(at));
    }
  }

  CleaningRig& t_;
  const Workload workload_;
  Random random_;
  uint64_t limit_ = 0;
  uint64_t live_ = 0;
  uint64_t serial_ = 0;
  uint64_t puts_ = 0;
  std::vector<Object> objects_;
  std::vector<size_t> free_;
};

class Deadlock : public ::testing::TestWithParam<Workload> {};

/// At 98 % use, cleaning copies fifty bytes for each byte written: so the test takes long.
uint64_t tenths() {
  const char* wanted = std::getenv("RAMCLOUD_CLEANING_TENTHS");
  return wanted != nullptr ? std::stoull(wanted) : ramcloud::testing::kSanitized ? 1 : 2;
}

TEST_P(Deadlock, NoWriteFailsWhileThereIsRoom) {
  CleaningRig t(8, true, options_of(GetParam()), 1 << 15);
  LongRun(t, GetParam(), 1).run(tenths());
}

/// Replicas come late, one thing at a time.
TEST_P(Deadlock, NorWhenBackupsAreSlow) {
  CleaningRig t(8, false, options_of(GetParam()), 1 << 15);
  t.slow = true;
  LongRun(t, GetParam(), 2).run(tenths());
}

INSTANTIATE_TEST_SUITE_P(Workloads, Deadlock, ::testing::ValuesIn(workloads()),
                         [](const auto& about) {
                           std::string name = about.param.name;
                           std::erase(name, ' ');
                           return name;
                         });

}  // namespace
}  // namespace ramcloud::store
