// A call to a silent owner does not wait until its deadline: the client asks the coordinator for
// the tablet's owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "client/core_test_support.h"
#include "runtime/when_all.h"

namespace ramcloud {
namespace {

using testing::HasSubstr;

constexpr Duration kLong = 20s;  // longer than any test

/// The first server has been suspended: its connections stay open, and it sends nothing.
class OwnerCheckTest : public CoreTest {
 protected:
  std::unique_ptr<ClientCore> core_ = std::make_unique<ClientCore>(
      world_.reactor, transport_,
      ClientCore::Options{{coordinator_.locator()}, kLong, /*owner_check_after=*/10ms});

  /// The client is connected to both servers and knows the table.
  void meet() {
    ASSERT_TRUE(world_.run(core_->write(3, "k", "v")).has_value());
    stores_[1] = stores_[0];
    asked_before_ = asked();
  }
  void suspend_first() {
    answers_[0] = [this](FakeNode&, const FakeNode::Call& call) { unanswered_.push_back(call); };
  }
  /// Answers the requests that came to the first server meanwhile.
  void resume_first() {
    for (const FakeNode::Call& call : std::exchange(unanswered_, {})) {
      stores_[0].answer(first_, call);
    }
  }
  void move_to_second() { table_ = table_over({{2, second_.locator()}}); }
  int asked() { return coordinator_.count(wire::Opcode::kGetTable); }
  int questions() { return asked() - asked_before_; }
  /// When the coordinator is asked for the `n`th time, `then` happens, before it answers.
  void at_question(int n, std::function<void()> then) {
    coordinate_ = [this, n, then](FakeNode& node, const FakeNode::Call& call) {
      if (call.opcode == wire::Opcode::kGetTable && questions() == n) then();
      answer_as_coordinator(node, call, table_);
    };
  }
  static std::vector<MultiOperation> operations(int count, const std::string& value = {}) {
    std::vector<MultiOperation> all;
    for (int i = 0; i < count; ++i) all.push_back({3, "key" + std::to_string(i), value, {}});
    return all;
  }

  std::vector<FakeNode::Call> unanswered_;
  int asked_before_ = 0;
};

TEST_F(OwnerCheckTest, AReadGoesOnAtTheNewOwner) {
  meet();
  suspend_first();
  move_to_second();
  auto found = world_.run(core_->read(3, "k"));
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  EXPECT_EQ(found->value, "v");
  EXPECT_EQ(first_.count(wire::Opcode::kRead), 1);
  EXPECT_EQ(second_.count(wire::Opcode::kRead), 1);
}

TEST_F(OwnerCheckTest, AReadThatWaitedInVainOnceIsNotSentThereAgain) {
  core_ = std::make_unique<ClientCore>(
      world_.reactor, transport_,
      ClientCore::Options{{coordinator_.locator()}, kLong, /*owner_check_after=*/kLong});
  meet();
  suspend_first();
  move_to_second();
  EXPECT_TRUE(world_.run(core_->read(3, "k")).has_value());
  EXPECT_EQ(first_.count(wire::Opcode::kRead), 1);
}

TEST_F(OwnerCheckTest, AScanGoesOnAtTheNewOwner) {
  meet();
  suspend_first();
  move_to_second();
  ClientCore::ScanPosition position;
  auto page = world_.run(core_->scan_page(3, position, false));
  ASSERT_TRUE(page.has_value()) << page.error().to_string();
  EXPECT_EQ(uint32_t{page->header().count}, 1u);
}

TEST_F(OwnerCheckTest, AReadWaitsForAnOwnerWhereThereIsNone) {
  meet();
  suspend_first();
  table_.tablets[0].state = wire::TabletState::kUnavailable;
  at_question(4, [this] { move_to_second(); });
  EXPECT_TRUE(world_.run(core_->read(3, "k")).has_value());
  EXPECT_EQ(first_.count(wire::Opcode::kRead), 1);
}

TEST_F(OwnerCheckTest, AChangeIsIndeterminateAtOnce) {
  meet();
  suspend_first();
  move_to_second();
  const auto expect_given_up = [](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kIndeterminate);
    EXPECT_THAT(status.message(), HasSubstr("table 'things' (id 3)"));
    EXPECT_THAT(status.message(), HasSubstr("server 1 was given up"));
    EXPECT_THAT(status.message(), HasSubstr("it may or may not have happened"));
  };
  expect_given_up(world_.run(core_->write(3, "k", "w")).error());
  EXPECT_EQ(second_.count(wire::Opcode::kWrite), 0);
  // The next one finds the new owner.
  EXPECT_TRUE(world_.run(core_->write(3, "k", "w")).has_value());
  EXPECT_EQ(second_.count(wire::Opcode::kWrite), 1);
  table_ = table_over({{1, first_.locator()}});
  table_.tablets[0].state = wire::TabletState::kUnavailable;
  answers_[1] = [](FakeNode&, const FakeNode::Call&) {};
  EXPECT_EQ(world_.run(core_->remove(3, "k")).error().code(), StatusCode::kIndeterminate);
}

TEST_F(OwnerCheckTest, ADeadServersTabletsAreEnough) {
  meet();
  suspend_first();
  table_.tablets[0].state = wire::TabletState::kUnavailable;
  EXPECT_EQ(world_.run(core_->increment(3, "n", wire::NumberType::kInt64, 1)).error().code(),
            StatusCode::kIndeterminate);
}

TEST_F(OwnerCheckTest, AnOwnerThatIsOnlySlowIsWaitedFor) {
  meet();
  suspend_first();
  at_question(3, [this] { resume_first(); });
  EXPECT_TRUE(world_.run(core_->write(3, "k", "w")).has_value());
  EXPECT_EQ(questions(), 3) << "it is asked again and again";
  EXPECT_EQ(first_.count(wire::Opcode::kWrite), 2) << "and the write is sent once";
}

TEST_F(OwnerCheckTest, WhatTheCoordinatorDoesNotSayChangesNothing) {
  meet();
  suspend_first();
  move_to_second();
  int silences = 0;
  coordinate_ = [&](FakeNode&, const FakeNode::Call&) {
    if (++silences == 2) resume_first();  // the request has a deadline, and is repeated
  };
  EXPECT_TRUE(world_.run(core_->write(3, "k", "w")).has_value());
}

TEST_F(OwnerCheckTest, ManyCallsShareOneQuestion) {
  meet();
  suspend_first();
  move_to_second();
  std::vector<Task<Result<uint64_t>>> writes;
  for (int i = 0; i < 100; ++i) writes.push_back(core_->write(3, "k" + std::to_string(i), "w"));
  for (const auto& written : world_.run(when_all(std::move(writes)))) {
    EXPECT_EQ(written.error().code(), StatusCode::kIndeterminate);
  }
  EXPECT_EQ(first_.count(wire::Opcode::kWrite), 1 + 100);
  EXPECT_EQ(questions(), 1);
}

TEST_F(OwnerCheckTest, AMultiReadGoesOnAtTheNewOwner) {
  meet();
  suspend_first();
  move_to_second();
  for (const auto& found : world_.run(core_->multi_read({{3, "k", {}, {}}, {3, "k", {}, {}}}))) {
    ASSERT_TRUE(found.has_value()) << found.error().to_string();
    EXPECT_EQ(found->value, "v");
  }
  EXPECT_EQ(first_.count(wire::Opcode::kMultiRead), 1);
}

TEST_F(OwnerCheckTest, AMultiWriteIsIndeterminateAtTheSilentOwnerOnly) {
  table_ = table_over({{1, first_.locator()}, {2, second_.locator()}});
  const auto all = operations(20, "w");
  for (const auto& written : world_.run(core_->multi_write(all))) ASSERT_TRUE(written.has_value());
  suspend_first();
  move_to_second();
  const auto written = world_.run(core_->multi_write(all));
  int lost = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool first = key_hash(3, all[i].key) >> 63 == 0;
    ASSERT_EQ(written[i].has_value(), !first);
    if (!first) continue;
    ++lost;
    EXPECT_EQ(written[i].error().code(), StatusCode::kIndeterminate);
    EXPECT_THAT(written[i].error().message(), HasSubstr("server 1 was given up"));
  }
  EXPECT_GT(lost, 0);
}

TEST_F(OwnerCheckTest, AMessageWaitsWhileItsServerHasOneOfItsTablets) {
  table_ = table_over({{1, first_.locator()}, {1, first_.locator()}});
  const auto all = operations(20, "w");
  for (const auto& written : world_.run(core_->multi_write(all))) ASSERT_TRUE(written.has_value());
  asked_before_ = asked();
  suspend_first();
  // It loses the tablet of the first operation.
  auto& moved = table_.tablets[key_hash(3, all[0].key) >> 63];
  moved.server_id = 2;
  moved.locator = second_.locator().to_string();
  at_question(3, [this] { resume_first(); });
  for (const auto& written : world_.run(core_->multi_write(all))) {
    EXPECT_TRUE(written.has_value()) << written.error().to_string();
  }
  EXPECT_EQ(first_.count(wire::Opcode::kMultiWrite), 2);
}

}  // namespace
}  // namespace ramcloud
