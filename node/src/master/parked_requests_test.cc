#include "master/parked_requests.h"

#include <gtest/gtest.h>

#include "master/data_service.h"
#include "master/testing/master_fixture.h"
#include "runtime/testing/each_turn.h"
#include "transport/testing/recorded_replies.h"
#include "wire/data_messages.h"

namespace ramcloud::master {
namespace {

class ParkedRequestsTest : public testing::MasterFixture<ramcloud::testing::RecordedReplies> {
 protected:
  ParkedRequestsTest() : MasterFixture(6, false) {
    own_table(1);
    parked_.attach(parts_.log);
    data_.attach(store_, &parked_);
  }
  void TearDown() override { EXPECT_TRUE(transport_.each_answered_once()); }
  uint64_t write(const std::string& key, const std::string& value, uint32_t timeout_ms = 0) {
    const wire::WriteRequest fixed{
        1, {}, static_cast<uint32_t>(value.size()), static_cast<uint16_t>(key.size()), 0};
    return send(wire::Opcode::kWrite, std::string(bytes_of(fixed)) + key + value, timeout_ms);
  }
  uint64_t read(const std::string& key) {
    const wire::ReadRequest fixed{1, {}, static_cast<uint16_t>(key.size()), {}};
    return send(wire::Opcode::kRead, std::string(bytes_of(fixed)) + key);
  }
  void open_head() {
    parts_.replicator.finish_all();
    EXPECT_TRUE(parts_.log.takes_data());
  }
  /// The head is closed, and that is not durable: between two heads.
  void begin_switch() {
    const uint64_t head = parts_.log.head().segment_id();
    ASSERT_EQ(parts_.log.roll_head(), StatusCode::kOk);
    parts_.replicator.finish_open(head + 1);
    ASSERT_FALSE(parts_.log.takes_data());
  }
  void turn() { node_.reactor().turn(); }
  /// Writes until one is parked: the one that found no room. Gives its call.
  uint64_t fill_head(const std::string& value) {
    uint64_t last = 0;
    while (parked_.size() == 0) last = write("key " + std::to_string(last_call_), value);
    return last;
  }
  /// Whether the call was answered. An unanswered call would otherwise look like RETRY.
  bool answered(uint64_t call) const { return transport_.by_call.contains(call); }

  DataService data_{registry_, replies_, metrics_};
  ParkedRequests parked_{node_.reactor(), registry_, metrics_};
  ramcloud::testing::EachTurn<HeldReplies, ParkedRequests> turns_{node_.reactor(), replies_,
                                                                  parked_};
};

TEST_F(ParkedRequestsTest, ChangesWaitForTheNextHeadAndKeepTheirOrder) {
  open_head();
  const uint64_t before = write("key", "first");
  begin_switch();
  const uint64_t second = write("key", "second");
  const uint64_t third = write("key", "third");
  const uint64_t other = write("other", "value");
  EXPECT_EQ(parked_.size(), 3u);
  EXPECT_TRUE(parked_.waiting());
  turn();
  EXPECT_FALSE(answered(second));
  parts_.replicator.finish_all();
  turn();
  EXPECT_EQ(parked_.size(), 0u);
  EXPECT_FALSE(parked_.waiting());
  parts_.replicator.finish_all();
  turn();
  for (const uint64_t call : {before, second, third, other}) {
    ASSERT_TRUE(answered(call));
    EXPECT_EQ(transport_.by_call[call].status, StatusCode::kOk);
  }
  store::ReadResult result;
  ASSERT_EQ(store_.read(1, "key", {}, result), StatusCode::kOk);
  EXPECT_TRUE(result.entry.equals(result.value_offset, "third"));
}

TEST_F(ParkedRequestsTest, TheChangeThatFindsTheHeadFullWaits) {
  open_head();
  const uint64_t last = fill_head(std::string(1 << 20, 'v'));
  EXPECT_FALSE(answered(last));
  const uint64_t small = write("small", "would fit, but does not overtake");
  EXPECT_EQ(parked_.size(), 2u);
  parts_.replicator.finish_all();
  turn();
  turn();
  EXPECT_EQ(parked_.size(), 0u) << "both are in the next head";
  parts_.replicator.finish_all();
  turn();
  for (uint64_t call = 1; call <= small; ++call) {
    ASSERT_TRUE(answered(call)) << call;
    EXPECT_EQ(transport_.by_call[call].status, StatusCode::kOk) << call;
  }
}

/// Memory is missing, not a head: so the request is answered, and the client waits; it has the
/// bytes anyway.
TEST_F(ParkedRequestsTest, WhoFindsNoMemoryIsToldToRetryWhileCleaningHelps) {
  open_head();
  const std::string value(1 << 20, 'v');
  for (int i = 0; i < 100 && parts_.log.has_segment_for(log::MemoryPurpose::kWrites); ++i) {
    write("key " + std::to_string(i), value);
    parts_.replicator.finish_all();
    turn();
  }
  const auto last_answer = [&] {
    uint64_t call = 0;
    for (int i = 0; i < 30; ++i) {
      call = write("more " + std::to_string(i), value);
      parts_.replicator.finish_all();
      turn();
    }
    return transport_.by_call.at(call).status;
  };
  EXPECT_EQ(last_answer(), StatusCode::kOutOfMemory);
  store_.log().set_cleaning_helps(true, 0);
  EXPECT_EQ(last_answer(), StatusCode::kRetry);
  EXPECT_EQ(parked_.size(), 0u);
  store_.log().set_cleaning_helps(false, ~uint64_t{0});
  EXPECT_EQ(last_answer(), StatusCode::kOutOfMemory);
}

TEST_F(ParkedRequestsTest, WhatFillsTheNextHeadWaitsForTheOneBehindIt) {
  open_head();
  const std::string value(1 << 20, 'v');
  fill_head(value);
  while (parked_.size() < 12) write("key " + std::to_string(last_call_), value);
  parts_.replicator.finish_all();
  turn();
  EXPECT_EQ(parked_.size(), 11u) << "1 MiB is as much as a turn takes";
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_GT(parked_.size(), 3u) << "12 MiB do not fit into a head of 8";
  EXPECT_FALSE(parts_.log.takes_data());
  parts_.replicator.finish_all();
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_EQ(parked_.size(), 0u);
  parts_.replicator.finish_all();
  turn();
  for (uint64_t call = 1; call <= last_call_; ++call) {
    ASSERT_TRUE(answered(call)) << call;
    EXPECT_EQ(transport_.by_call[call].status, StatusCode::kOk) << call;
  }
}

TEST_F(ParkedRequestsTest, ReadsGoOn) {
  open_head();
  write("key", "value");
  parts_.replicator.finish_data(1);
  begin_switch();
  const uint64_t call = read("key");
  EXPECT_EQ(parked_.size(), 0u);
  turn();
  ASSERT_TRUE(answered(call));
  EXPECT_EQ(transport_.by_call[call].status, StatusCode::kOk);
}

TEST_F(ParkedRequestsTest, WhatWaitsTooLongIsToldToComeAgain) {
  open_head();
  begin_switch();
  const uint64_t call = write("key", "value");
  sim_.clock().advance(ParkedRequests::kLongest - 1us);
  turn();
  EXPECT_FALSE(answered(call));
  EXPECT_LE(node_.reactor().next_deadline(), sim_.now() + 1us) << "a turn will come";
  sim_.clock().advance(1us);
  turn();
  ASSERT_TRUE(answered(call));
  EXPECT_EQ(transport_.by_call[call].status, StatusCode::kRetry);
  EXPECT_EQ(parked_.size(), 0u);
}

TEST_F(ParkedRequestsTest, WhatOutlivesItsCallerIsNotDone) {
  open_head();
  begin_switch();
  const uint64_t late = write("key", "late", 1);
  const uint64_t in_time = write("other", "in time", 10);
  sim_.clock().advance(1ms);
  parts_.replicator.finish_all();
  ASSERT_TRUE(parts_.log.takes_data());
  turn();
  parts_.replicator.finish_all();
  turn();
  ASSERT_TRUE(answered(late) && answered(in_time));
  EXPECT_EQ(transport_.by_call[late].status, StatusCode::kRetry);
  EXPECT_EQ(transport_.by_call[in_time].status, StatusCode::kOk);
  store::ReadResult result;
  EXPECT_EQ(store_.read(1, "key", {}, result), StatusCode::kNotFound);
}

TEST_F(ParkedRequestsTest, NoMoreThanTheLimitIsKept) {
  open_head();
  begin_switch();
  const std::string value(1 << 20, 'v');
  uint64_t last = 0;
  while (parked_.size() < 100 && !answered(last)) last = write("key", value);
  EXPECT_EQ(transport_.by_call[last].status, StatusCode::kRetry);
  EXPECT_EQ(parked_.size(), ParkedRequests::kMaxBytes / (value.size() + 35));
}

}  // namespace
}  // namespace ramcloud::master
