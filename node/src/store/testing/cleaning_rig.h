// For tests of cleaning as a whole: a small log with its store, a cleaner and its passes, driven
// step by step, with replicas that the test makes durable step by step.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "log/cleaner.h"
#include "log/log_test_support.h"
#include "store/compaction_pass.h"
#include "store/object_store.h"
#include "store/segment_judge.h"

namespace ramcloud::store::testing {

inline constexpr wire::RejectRules kNoRules{};

struct CleaningRig {
  explicit CleaningRig(uint32_t segments, bool immediate = true, log::CleanerOptions options = {},
                       uint64_t buckets = 1 << 14, uint32_t most_segments = 0)
      : parts(segments, immediate, 1, true, 2, most_segments),
        store(parts.log, clock, {.buckets = buckets}),
        judge(store),
        cleaner(
            parts.log, clock, options,
            [this](const log::Segment& segment, log::Look look) {
              return judge.judge(segment, look);
            },
            [this](log::CleaningKind kind, const std::vector<log::Segment*>& victims) {
              return make_pass(store, kind, victims);
            }),
        worker(cleaner) {
    parts.replicator.finish_all();
    EXPECT_TRUE(store.take_tablet(1, 0, ~uint64_t{0}).ok());
  }

  void replicate() {
    if (!slow) return parts.replicator.finish_all();
    // Does one step now and then, so that reports come late and in any order.
    if (random.chance(0.05)) (void)parts.replicator.step(random);
  }
  void reclaim() {
    (void)store.sweep();
    parts.log.reclaim(parts.log.take_retired());
  }
  /// Cleans until there is nothing to do. Reuses memory as soon as possible.
  void clean() {
    int steps = 0;
    for (; steps < 10'000'000; ++steps) {
      const bool more = worker.step();
      replicate();
      reclaim();
      if (!more && !worker.step()) break;
    }
    EXPECT_LT(steps, 10'000'000) << "it never sleeps";
  }
  /// Repeats the operation until cleaning cannot help any more.
  template <typename Operation>
  StatusCode until_done(const Operation& operation) {
    StatusCode status = operation();
    for (int i = 0; i < 10'000'000 && status != StatusCode::kOk; ++i) {
      const bool worked = worker.step();
      replicate();
      reclaim();
      if (status == StatusCode::kOutOfMemory && !worked && !parts.log.cleaning_helps()) break;
      status = operation();
    }
    return status;
  }
  StatusCode write(const std::string& key, const std::string& value) {
    uint64_t version = 0;
    log::LogPosition depends;
    return until_done([&] { return store.write(1, key, value, kNoRules, version, depends); });
  }
  StatusCode remove(const std::string& key) {
    uint64_t version = 0;
    log::LogPosition depends;
    return until_done([&] { return store.remove(1, key, kNoRules, version, depends); });
  }
  std::string read(const std::string& key) {
    ReadResult result;
    if (store.read(1, key, kNoRules, result) != StatusCode::kOk) return "-";
    std::string value(result.value_length, '\0');
    result.entry.read(result.value_offset, value.data(), result.value_length);
    return value;
  }
  /// For messages of tests.
  std::string describe() const {
    const log::Log::Memory memory = parts.log.memory();
    std::string text = cleaner.state().why + "; " + std::to_string(memory.free_seglets) + " of " +
                       std::to_string(memory.total_seglets) + " seglets free, " +
                       std::to_string(memory.leaving_seglets) + " leave, " +
                       std::to_string(worker.passes()) + " passes, " +
                       std::to_string(store.pending_deletes()) + " deletes wait, data " +
                       (parts.log.takes_data() ? "is" : "is not") + " taken; failed runs " +
                       std::to_string(cleaner.state().failed_runs) + "; durable " +
                       std::to_string(parts.log.durable().segment_id()) + "/" +
                       std::to_string(parts.log.durable().offset()) + " of " +
                       std::to_string(parts.log.head().segment_id()) + "/" +
                       std::to_string(parts.log.head().offset()) + "; segments";
    for (const log::Segment* segment : parts.log.segments()) {
      text += " " + std::to_string(segment->id()) + (segment->side() ? "s" : "") +
              (segment->closed_durable() ? "" : "+") + ":" + std::to_string(segment->live_bytes()) +
              "/" + std::to_string(segment->memory_bytes());
    }
    return text;
  }
  /// Seglets of the log that are in no segment, once nothing is left to clean.
  uint32_t free_seglets() const { return parts.log.memory().free_seglets; }
  uint32_t total_seglets() const { return parts.log.memory().total_seglets; }

  bool slow = false;
  Random random{1};
  VirtualClock clock;
  log::TestLog parts;
  ObjectStore store;
  SegmentJudge judge;
  log::Cleaner cleaner;
  log::Cleaner::Worker worker;
};

}  // namespace ramcloud::store::testing
