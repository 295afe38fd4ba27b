// The head protocol under real threads: several append, one replicates. Run under the thread
// sanitizer, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "log/group_reader.h"
#include "log/invariants.h"
#include "log/log_test_support.h"

namespace ramcloud::log {
namespace {

using testing::IsEmpty;

/// Waits as a held reply does: the listener wakes it, without polling.
class Waiter {
 public:
  void tell() {
    told_.fetch_add(1);
    told_.notify_all();
  }
  void until_durable(const Log& log, LogPosition position) {
    for (;;) {
      const uint64_t before = told_.load();
      if (log.durable() >= position) return;
      told_.wait(before);
    }
  }
  uint64_t told() const { return told_.load(); }

 private:
  std::atomic<uint64_t> told_{0};
};

struct Written {
  const char* ref = nullptr;
  LogPosition end;
  uint64_t number = 0;
  uint32_t length = 0;
};

/// Sizes on both sides of 4 KiB, which is where copying leaves the lock.
uint32_t some_length(Random& random) {
  return static_cast<uint32_t>(random.chance(0.2) ? 4'000 + random.below(60'000)
                                                  : random.below(600));
}

std::vector<Written> append_many(Log& log, Waiter& waiter, uint64_t table, int count) {
  Random random(table);
  const std::string bytes(70'000, static_cast<char>('a' + table));
  std::vector<Written> all;
  for (int i = 0; i < count; ++i) {
    Written written;
    written.number = static_cast<uint64_t>(i) + 1;
    written.length = some_length(random);
    const ByteView value = ByteView(bytes).substr(0, written.length);
    Appended appended;
    StatusCode status;
    do {
      status = append_object(log, table, written.number, "key", value, &appended, &written.ref);
      if (status == StatusCode::kRetry) std::this_thread::yield();
    } while (status == StatusCode::kRetry);
    EXPECT_EQ(status, StatusCode::kOk);
    if (status != StatusCode::kOk) break;
    written.end = appended.end;
    if (!all.empty()) EXPECT_LT(all.back().end, written.end);
    all.push_back(written);
    if (random.chance(0.02)) waiter.until_durable(log, written.end);
  }
  waiter.until_durable(log, all.back().end);
  return all;
}

void check_written(const Log& log, uint64_t table, const std::vector<Written>& all) {
  const std::string bytes(70'000, static_cast<char>('a' + table));
  for (const Written& written : all) {
    const auto object = parse_object(log.entry(written.ref));
    ASSERT_TRUE(object && object->entry.verify());
    ASSERT_EQ(object->table_id, table);
    ASSERT_EQ(object->version, written.number);
    ASSERT_TRUE(
        object->entry.equals(object->value_offset, ByteView(bytes).substr(0, written.length)));
    ASSERT_LE(log.position_of(written.ref), written.end);
  }
}

/// Four threads append until several heads were switched; what each wrote is in `all` afterwards.
void append_from_four_threads(Log& log, Waiter& waiter, int count) {
  constexpr uint64_t kThreads = 4;
  std::array<std::vector<Written>, kThreads> all;
  std::vector<std::thread> threads;
  for (uint64_t n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] { all[n] = append_many(log, waiter, n, count); });
  }
  for (auto& thread : threads) thread.join();
  for (uint64_t n = 0; n < kThreads; ++n) {
    ASSERT_EQ(all[n].size(), static_cast<size_t>(count));
    check_written(log, n, all[n]);
  }
  EXPECT_EQ(log.statistics().appended_groups, kThreads * static_cast<uint64_t>(count));
  EXPECT_GE(log.statistics().head_switches, 3u);
  EXPECT_THAT(Invariants(log).check(), IsEmpty());
}

constexpr int kAppends = 1500;

TEST(LogThreads, FourAppendWhileOneReplicates) {
  Arena arena(10 * uint64_t{kSegmentBytes}, {.try_huge_pages = false, .prefault = false});
  FakeReplicator replicator;
  replicator.keeps_bytes = true;
  Waiter waiter;
  Log log(arena, replicator, test_log_options());
  log.set_progress_listener([&] { waiter.tell(); });
  replicator.attach(log);
  log.start();
  replicator.start_thread(1);
  append_from_four_threads(log, waiter, kAppends);
  replicator.stop_thread();
  EXPECT_EQ(log.durable(), log.head());
  ASSERT_EQ(replicator.replicas().size(), log.segments().size());
  for (const auto& replica : replicator.replicas()) {
    EXPECT_EQ(replica.bytes, image_of(*replica.segment)) << "what was published did not change";
  }
}

TEST(LogThreads, WithoutReplicationAllBecomesDurable) {
  Arena arena(10 * uint64_t{kSegmentBytes}, {.try_huge_pages = false, .prefault = false});
  NullReplicator replicator;
  Waiter waiter;
  Log log(arena, replicator, test_log_options());
  log.set_progress_listener([&] { waiter.tell(); });
  log.start();
  append_from_four_threads(log, waiter, kAppends);
  EXPECT_EQ(log.durable(), log.head());
}

TEST(LogThreads, TheListenerHearsOfDurabilityAndOfNewHeads) {
  TestLog t(4, false, 1, false);
  int told = 0;
  t.log.set_progress_listener([&] { ++told; });
  t.log.start();
  EXPECT_EQ(told, 0);
  EXPECT_FALSE(t.log.takes_data());
  t.replicator.finish_open(1);
  EXPECT_EQ(told, 2) << "the header is durable, the head takes data";
  EXPECT_TRUE(t.log.takes_data());
  ASSERT_EQ(append_object(t.log, 1, 1, "k", "v"), StatusCode::kOk);
  EXPECT_EQ(told, 2);
  t.replicator.finish_data(1);
  EXPECT_EQ(told, 3);
  t.replicator.finish_data(1);
  EXPECT_EQ(told, 3) << "nothing new";
}

}  // namespace
}  // namespace ramcloud::log
