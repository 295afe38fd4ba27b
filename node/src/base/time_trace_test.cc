#include "base/time_trace.h"

#include <gtest/gtest.h>

#include <thread>

namespace ramcloud {
namespace {

TEST(TimeTrace, KeepsTheLastEventsInOrder) {
  TimeTrace trace;
  EXPECT_TRUE(trace.snapshot().empty());
  const uint64_t total = TimeTrace::kEvents + 100;
  for (uint64_t i = 0; i < total; ++i) trace.record("event", i, 2 * i);
  const auto events = trace.snapshot();
  // One less than the ring holds: the oldest could be half overwritten by the next.
  ASSERT_EQ(events.size(), TimeTrace::kEvents - 1);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].id, total - events.size() + i);
    EXPECT_EQ(events[i].value, 2 * events[i].id);
    EXPECT_EQ(events[i].what, "event");
    if (i > 0) {
      EXPECT_GE(events[i].unix_ns, events[i - 1].unix_ns);
    }
  }
}

TEST(TimeTrace, StampsAreWallClockTime) {
  using std::chrono::system_clock;
  const auto ns = [](system_clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
  };
  TimeTrace trace;
  const int64_t before = ns(system_clock::now());
  trace.record("now", 1, 0);
  const int64_t after = ns(system_clock::now());
  // The rate of the counter is learnt from the life of the trace: it must have lived for a while.
  while (ns(system_clock::now()) < after + 20'000'000) std::this_thread::yield();
  const auto events = trace.snapshot();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_GT(events[0].unix_ns, before - 5'000'000);
  EXPECT_LT(events[0].unix_ns, after + 5'000'000);
}

TEST(TimeTrace, ASnapshotWhileEventsAreRecordedHasNoTornOnes) {
  TimeTrace trace;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 1; !stop; ++i) trace.record("event", i, ~i);
  });
  uint64_t newest = 0;
  while (newest < 4 * TimeTrace::kEvents) {
    for (const TraceEvent& event : trace.snapshot()) {
      ASSERT_EQ(event.value, ~event.id);
      newest = std::max(newest, event.id);
    }
  }
  stop = true;
  writer.join();
}

TEST(TimeTrace, Json) {
  TimeTrace trace;
  EXPECT_EQ(trace.json(), "{\"events\":[]}\n");
  trace.record("request received", 7, 16);
  const std::string json = trace.json();
  EXPECT_NE(json.find("\"what\":\"request received\",\"id\":7,\"value\":16}"), std::string::npos)
      << json;
}

TEST(TimeTrace, SeveralRingsAreShownByTime) {
  TimeTrace a, b;
  a.record("first", 1, 0);
  b.record("second", 2, 0);
  a.record("third", 3, 0);
  const std::string json = TimeTrace::json_of({&a, &b});
  EXPECT_NE(json.find("\"id\":1"), std::string::npos);
  EXPECT_NE(json.find("\"id\":2"), std::string::npos);
  EXPECT_LT(json.find("\"id\":1"), json.find("\"id\":3"));
}

}  // namespace
}  // namespace ramcloud
