// Cleaning on a thread of its own, as in a server, beside writers, deleters, readers and scans, in
// a log that is short of memory throughout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/testing/sanitizer.h"
#include "log/cleaner.h"
#include "log/log_test_support.h"
#include "runtime/epoch.h"
#include "store/compaction_pass.h"
#include "store/invariants.h"
#include "store/segment_judge.h"

namespace ramcloud::store {
namespace {

using ::testing::IsEmpty;

constexpr wire::RejectRules kNoRules{};
constexpr uint32_t kSegments = 12;
constexpr uint64_t kTable = 1;
constexpr uint64_t kKeys = 2'400;  // of each writer
constexpr uint64_t kStable = 300;  // that no thread changes
constexpr uint64_t kWriters = 2;

std::string key_of(uint64_t owner, uint64_t i) {
  return "key" + std::to_string(owner) + "-" + std::to_string(i);
}
std::string value_of(const std::string& key, uint64_t serial, uint64_t length) {
  std::string value = key + "#" + std::to_string(serial) + "#";
  value.resize(std::max<uint64_t>(length, value.size()), static_cast<char>('a' + serial % 26));
  return value;
}

class Storm {
 public:
  /// `most_segments`: the log is resized throughout, up to these. 0: it stays as it is.
  explicit Storm(bool two_level, uint32_t most_segments = 0)
      : most_segments_(most_segments),
        two_level_(two_level),
        arena_(uint64_t{kSegments} * log::kSegmentBytes,
               {.try_huge_pages = false,
                .prefault = false,
                .most_bytes = uint64_t{most_segments} * log::kSegmentBytes}),
        log_(arena_, replicas_, log::test_log_options(1, 2)),
        store_(log_, clock_, {.buckets = 1 << 10, .max_pending_deletes = 4096}),
        judge_(store_),
        cleaner_(
            log_, clock_, options_of(two_level),
            [this](const log::Segment& segment, log::Look look) {
              return judge_.judge(segment, look);
            },
            [this](log::CleaningKind kind, const std::vector<log::Segment*>& victims) {
              return make_pass(store_, kind, victims);
            }) {
    replicas_.attach(log_);
    replicas_.start_thread(1);
    log_.start();
    EXPECT_TRUE(store_.take_tablet(kTable, 0, ~uint64_t{0}).ok());
  }

  void run(uint64_t operations) {
    std::vector<std::thread> threads;
    threads.emplace_back([this] { clean(); });
    {
      Epochs::Participant participant(epochs_);
      for (uint64_t i = 0; i < kStable; ++i) {
        const std::string key = key_of(9, i);
        put(participant, key, value_of(key, i, 2'000));
        stable_[key] = value_of(key, i, 2'000);
      }
    }
    for (uint64_t i = 0; i < kWriters; ++i) {
      threads.emplace_back([this, i, operations] { write(i, operations); });
    }
    threads.emplace_back([this] { read(); });
    threads.emplace_back([this] { scan(); });
    while (writers_done_.load() < kWriters) {
      if (most_segments_ > 0) resize();
      reclaim();
    }
    if (most_segments_ > 0) finish_resize();
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
    finish_passes();
    replicas_.stop_thread();
    (void)store_.sweep();
  }

  uint64_t resizes() const { return resizes_; }
  void expect_all() {
    EXPECT_THAT(Invariants(store_).check(), IsEmpty());
    uint64_t expected = stable_.size();
    for (const auto& [key, value] : stable_) EXPECT_EQ(value_in(key), value);
    for (uint64_t i = 0; i < kWriters; ++i) {
      expected += written_[i].size();
      for (uint64_t k = 0; k < kKeys; ++k) {
        const auto found = written_[i].find(key_of(i, k));
        EXPECT_EQ(value_in(key_of(i, k)), found == written_[i].end() ? "-" : found->second);
      }
    }
    EXPECT_EQ(store_.object_count(kTable), expected);
    const log::CleanerState state = cleaner_.state();
    EXPECT_GT(two_level_ ? state.compaction_runs : state.combined_runs, 2u);
    EXPECT_GT(scans_.load(), 0u);
    EXPECT_GT(reads_.load(), 0u);
  }

 private:
  static log::CleanerOptions options_of(bool two_level) {
    log::CleanerOptions options;
    options.balancer.compaction = two_level;
    return options;
  }
  std::string value_in(const std::string& key) {
    ReadResult result;
    if (store_.read(kTable, key, kNoRules, result) != StatusCode::kOk) return "-";
    EXPECT_TRUE(result.entry.verify()) << key;
    std::string value(result.value_length, '\0');
    result.entry.read(result.value_offset, value.data(), result.value_length);
    return value;
  }
  template <typename Operation>
  void until_done(Epochs::Participant& participant, const Operation& operation) {
    while (operation() != StatusCode::kOk) {
      (void)store_.sweep(64);
      participant.pass();
      std::this_thread::yield();
    }
    participant.pass();
  }
  void put(Epochs::Participant& participant, const std::string& key, const std::string& value) {
    uint64_t version = 0;
    log::LogPosition depends;
    until_done(participant,
               [&] { return store_.write(kTable, key, value, kNoRules, version, depends); });
  }
  void remove(Epochs::Participant& participant, const std::string& key) {
    uint64_t version = 0;
    log::LogPosition depends;
    until_done(participant, [&] { return store_.remove(kTable, key, kNoRules, version, depends); });
  }

  /// What expect_all() asks for. Asked now and then; a writer that waits in vain ends, and fails
  /// there.
  bool all_was_seen(uint64_t i, uint64_t operations) const {
    if (i % 256 != 0) return false;
    return i > 20 * operations ||
           (cleaner_.state().combined_runs > 8 && scans_.load() > 0 && reads_.load() > 0);
  }
  /// Keys that nobody else changes: it reads what it wrote.
  void write(uint64_t self, uint64_t operations) {
    Epochs::Participant participant(epochs_);
    Random random(self + 1);
    auto& written = written_[self];
    for (uint64_t i = 0; i < operations || !all_was_seen(i, operations); ++i) {
      const std::string key = key_of(self, random.below(kKeys));
      if (random.chance(0.3)) {
        remove(participant, key);
        written.erase(key);
      } else {
        const uint64_t length = random.chance(0.02) ? random.below(200'000) : random.below(12'000);
        written[key] = value_of(key, i, length);
        put(participant, key, written[key]);
      }
      const auto found = written.find(key);
      EXPECT_EQ(value_in(key), found == written.end() ? "-" : found->second) << key;
      if (i % 16 == 0) (void)store_.sweep(64);
      participant.pass();
    }
    ++writers_done_;
  }
  void read() {
    Epochs::Participant participant(epochs_);
    Random random(77);
    while (!stop_.load()) {
      const std::string key = key_of(random.below(kWriters), random.below(kKeys));
      const std::string value = value_in(key);
      if (value != "-") EXPECT_EQ(value.substr(0, key.size() + 1), key + "#");
      const std::string stays = key_of(9, random.below(kStable));
      EXPECT_EQ(value_in(stays), stable_.at(stays));
      ++reads_;
      participant.pass();
    }
  }
  /// Objects that stay are found exactly once, whatever is moved meanwhile.
  void scan() {
    Epochs::Participant participant(epochs_);
    std::vector<log::ObjectView> page(512);
    while (!stop_.load()) {
      std::set<std::string> seen;
      EnumerateResult result;
      for (uint64_t cursor = 0; !result.done; cursor = result.next_cursor) {
        ASSERT_EQ(store_.enumerate(kTable, 0, cursor, {.max_bytes = 1 << 20}, page, result),
                  StatusCode::kOk);
        for (uint32_t i = 0; i < result.count; ++i) {
          std::string key(page[i].key_length, '\0');
          page[i].entry.read(page[i].key_offset, key.data(), page[i].key_length);
          EXPECT_TRUE(page[i].entry.verify());
          EXPECT_TRUE(seen.insert(key).second || !stable_.contains(key)) << key << " twice";
        }
        participant.pass();
      }
      for (const auto& [key, value] : stable_) EXPECT_TRUE(seen.contains(key)) << key;
      ++scans_;
    }
  }
  void clean() {
    Epochs::Participant participant(epochs_);
    while (!stop_.load()) {
      if (!worker_.step()) std::this_thread::yield();
      participant.pass();
    }
  }
  /// Passes wait for heads, which no other thread opens any more.
  void finish_passes() {
    while (worker_.passes() > 0) {
      if (!worker_.step() && log_.ready()) (void)log_.roll_head();
      reclaim();
    }
  }
  /// As the first reactor does: after a grace period.
  void reclaim() {
    const auto retired = log_.take_retired();
    if (retired.empty()) return std::this_thread::yield();
    const uint64_t epoch = epochs_.advance({});
    while (!epochs_.passed(epoch)) std::this_thread::yield();
    epochs_.forget_passed();
    log_.reclaim(retired);
  }

  /// A slice; another size when one is reached. Down to what has room for all that is written.
  void resize() {
    (void)log_.continue_resize();
    const log::Arena::Sizes now = arena_.sizes();
    EXPECT_LE(now.used, now.limit);
    if (!now.at_target()) return;
    const uint64_t segments = resizes_++ % 2 == 0 ? most_segments_ : kSegments;
    EXPECT_TRUE(log_.resize(segments * log::kSegmentBytes, 0).ok());
  }
  /// The last one is to be small: with the cleaner alone, because nobody writes any more.
  void finish_resize() {
    EXPECT_TRUE(log_.resize(kSegments * log::kSegmentBytes, 0).ok());
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!arena_.sizes().at_target()) {
      (void)log_.continue_resize();
      reclaim();
      if (std::chrono::steady_clock::now() < end) continue;
      const log::Arena::Sizes sizes = arena_.sizes();
      const log::Log::Memory memory = log_.memory();
      ADD_FAILURE() << "it is not done: " << cleaner_.state().why << "; target " << sizes.target
                    << ", limit " << sizes.limit << ", used " << sizes.used << ", free "
                    << memory.free_seglets << ", leaving " << memory.leaving_seglets
                    << ", segments " << memory.segments << ", kept "
                    << log_.must_stay_free(log::MemoryPurpose::kWrites);
      return;
    }
  }

  const uint32_t most_segments_;
  const bool two_level_;
  uint64_t resizes_ = 0;
  VirtualClock clock_;
  Epochs epochs_;
  log::Arena arena_;
  log::FakeReplicator replicas_;
  log::Log log_;
  ObjectStore store_;
  SegmentJudge judge_;
  log::Cleaner cleaner_;
  log::Cleaner::Worker worker_{cleaner_};
  std::map<std::string, std::string> stable_;
  std::map<std::string, std::string> written_[kWriters];
  std::atomic<uint64_t> writers_done_{0};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> reads_{0}, scans_{0};
};

/// Whether memory is cleaned in two levels.
class CleaningThreads : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Levels, CleaningThreads, ::testing::Bool());

TEST_P(CleaningThreads, NothingIsLostBesideWritersDeletersReadersAndScans) {
  Storm storm(GetParam());
  storm.run(ramcloud::testing::kSanitized ? 10'000 : 40'000);
  storm.expect_all();
}

TEST_P(CleaningThreads, NorWhileTheLogGrowsAndShrinks) {
  Storm storm(GetParam(), 3 * kSegments);
  storm.run(ramcloud::testing::kSanitized ? 10'000 : 40'000);
  storm.expect_all();
  EXPECT_GE(storm.resizes(), 2u);
}

}  // namespace
}  // namespace ramcloud::store
