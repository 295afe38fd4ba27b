// Multi-operations: split by server and by size, each operation with an outcome of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "client/core_test_support.h"

namespace ramcloud {
namespace {

using testing::HasSubstr;

class MultiTest : public CoreTest {
 protected:
  static std::vector<MultiOperation> operations(int count, const std::string& value = {}) {
    std::vector<MultiOperation> all;
    for (int i = 0; i < count; ++i) all.push_back({3, "key" + std::to_string(i), value, {}});
    return all;
  }
  void two_servers() { table_ = table_over({{1, first_.locator()}, {2, second_.locator()}}); }
  static StatusCode code(const auto& result) {
    return result ? StatusCode::kOk : result.error().code();
  }
};

TEST_F(MultiTest, WritesReadsAndRemovesOnAllServers) {
  two_servers();
  auto core = make();
  for (const auto& written : world_.run(core->multi_write(operations(100, "v")))) {
    ASSERT_TRUE(written.has_value()) << written.error().to_string();
    EXPECT_GT(*written, 0u);
  }
  EXPECT_EQ(stores_[0].objects.size() + stores_[1].objects.size(), 100u);
  EXPECT_EQ(first_.count(wire::Opcode::kMultiWrite), 1);
  EXPECT_EQ(second_.count(wire::Opcode::kMultiWrite), 1);
  auto wanted = operations(102);  // the last two do not exist
  const auto found = world_.run(core->multi_read(wanted));
  ASSERT_EQ(found.size(), 102u);
  for (size_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(found[i].has_value());
    EXPECT_EQ(found[i]->value, "v");
    const int owner = key_hash(3, wanted[i].key) >> 63 ? 1 : 0;
    EXPECT_EQ(found[i]->version, stores_[owner].objects[wanted[i].key].second);
  }
  EXPECT_EQ(code(found[100]), StatusCode::kNotFound);
  EXPECT_EQ(code(found[101]), StatusCode::kNotFound);
  const auto removed = world_.run(core->multi_remove(operations(101)));
  EXPECT_GT(removed[0].value(), 0u);
  EXPECT_EQ(removed[100].value(), 0u);
  EXPECT_EQ(stores_[0].objects.size() + stores_[1].objects.size(), 0u);
}

TEST_F(MultiTest, NoneIsFine) {
  auto core = make();
  EXPECT_TRUE(world_.run(core->multi_read({})).empty());
}

TEST_F(MultiTest, BadArgumentsFailAlone) {
  auto core = make();
  auto all = operations(3, "v");
  all[0].key.clear();
  all[2].value.assign(1'048'577, 'v');
  const auto written = world_.run(core->multi_write(all));
  EXPECT_EQ(code(written[0]), StatusCode::kInvalidArgument);
  EXPECT_TRUE(written[1].has_value());
  EXPECT_EQ(code(written[2]), StatusCode::kInvalidArgument);
  EXPECT_THAT(written[2].error().message(), HasSubstr("1048577"));
}

TEST_F(MultiTest, OperationsThatAreOnlyRefusedFindTheNewOwner) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->open_table("things")).has_value());
  answers_[0] = [](FakeNode& node, const FakeNode::Call& call) {
    node.error(call, StatusCode::kRetry, 1000);
  };
  const int asked = coordinator_.count(wire::Opcode::kGetTable);
  table_ = table_over({{2, second_.locator()}});
  for (const auto& written : world_.run(core->multi_write(operations(3, "v")))) {
    EXPECT_TRUE(written.has_value()) << written.error().to_string();
  }
  EXPECT_EQ(stores_[1].objects.size(), 3u);
  EXPECT_EQ(coordinator_.count(wire::Opcode::kGetTable), asked + 1);
}

/// It carries out one operation, and asks to wait, again and again.
TEST_F(MultiTest, TheOwnerOfAServerThatGoesOnIsNotChecked) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->open_table("things")).has_value());
  answers_[0] = [](FakeNode& node, const FakeNode::Call& call) {
    const wire::MultiReply header{.count = 1, .retry_after_us = 1};
    wire::MultiResult result{};
    result.version = 1;
    node.ok(call, std::string(bytes_of(header)) + std::string(bytes_of(result)));
  };
  const int asked = coordinator_.count(wire::Opcode::kGetTable);
  for (const auto& written : world_.run(core->multi_write(operations(40, "v")))) {
    EXPECT_TRUE(written.has_value()) << written.error().to_string();
  }
  EXPECT_EQ(coordinator_.count(wire::Opcode::kGetTable), asked);
}

TEST_F(MultiTest, SplitsByMessageSizeInOrder) {
  auto core = make();
  auto all = operations(10, std::string(400'000, 'v'));
  all.push_back({3, "key0", "last", {}});  // of two writes to one key the later stays
  for (const auto& written : world_.run(core->multi_write(all))) {
    EXPECT_TRUE(written.has_value());
  }
  EXPECT_EQ(first_.count(wire::Opcode::kMultiWrite), 5);
  EXPECT_EQ(stores_[0].objects["key0"].first, "last");
}

TEST_F(MultiTest, WhatAServerLeftOverIsSentAgain) {
  stores_[0].multi_limit = 7;
  auto core = make();
  for (const auto& written : world_.run(core->multi_write(operations(20, "v")))) {
    EXPECT_TRUE(written.has_value());
  }
  EXPECT_EQ(first_.count(wire::Opcode::kMultiWrite), 3);
  EXPECT_EQ(stores_[0].last_version, 20u) << "each was written once";
}

TEST_F(MultiTest, AWaitThatIsAskedForHasABound) {
  auto core = make();
  bool refused = false;
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    if (refused) return stores_[0].answer(node, call);
    refused = true;
    node.error(call, StatusCode::kRetry, ~uint32_t{0});
  };
  for (const auto& written : world_.run(core->multi_write(operations(20, "v")))) {
    EXPECT_TRUE(written.has_value());
  }
}

TEST_F(MultiTest, FollowsATabletThatMoved) {
  two_servers();
  auto core = make();
  ASSERT_TRUE(world_.run(core->multi_write(operations(20, "old")))[0].has_value());
  answers_[0] = [](FakeNode& node, const FakeNode::Call& call) {
    // Answers each operation by itself: the tablet is not here any more.
    const auto header = load<wire::MultiRequest>(call.body.data());
    std::string body(bytes_of(wire::MultiReply{header.count, 0}));
    const wire::MultiResult moved{static_cast<uint16_t>(StatusCode::kUnknownTablet), 0, 0, 0};
    for (uint32_t i = 0; i < header.count; ++i) body.append(bytes_of(moved));
    node.ok(call, body);
  };
  table_ = table_over({{2, second_.locator()}});
  for (const auto& written : world_.run(core->multi_write(operations(20, "new")))) {
    EXPECT_TRUE(written.has_value());
  }
  EXPECT_EQ(stores_[1].objects.size(), 20u);
  EXPECT_EQ(stores_[1].objects["key0"].first, "new");
}

TEST_F(MultiTest, TheLastOfOneKeyTakesEffectLast) {
  auto core = make();
  bool refused = false;
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    if (std::exchange(refused, true)) return stores_[0].answer(node, call);
    const auto header = load<wire::MultiRequest>(call.body.data());
    std::string body(bytes_of(wire::MultiReply{header.count, 0}));
    const wire::MultiResult elsewhere{static_cast<uint16_t>(StatusCode::kUnknownTablet), 0, 0, 0};
    for (uint32_t i = 0; i < header.count; ++i) body.append(bytes_of(elsewhere));
    node.ok(call, body);
  };
  // The second write of "k" is in a message of its own: the server has the tablet again by then.
  const auto written = world_.run(core->multi_write({{3, "k", std::string(1'048'576, '1'), {}},
                                                     {3, "k", "second", {}},
                                                     {3, "other", "third", {}}}));
  for (const auto& one : written) EXPECT_TRUE(one.has_value()) << one.error().to_string();
  EXPECT_EQ(stores_[0].objects["k"].first, "second");
  EXPECT_LT(*written[0], *written[1]);
}

TEST_F(MultiTest, LostRepliesOfWritesAreIndeterminateOthersGoOn) {
  two_servers();
  auto core = make();
  ASSERT_TRUE(world_.run(core->multi_write(operations(20, "v")))[0].has_value());
  answers_[0] = [](FakeNode& node, const FakeNode::Call&) { node.restart_soon(); };
  const auto all = operations(20, "w");
  const auto written = world_.run(core->multi_write(all));
  int lost = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool first = key_hash(3, all[i].key) >> 63 == 0;
    EXPECT_EQ(code(written[i]), first ? StatusCode::kIndeterminate : StatusCode::kOk);
    lost += first ? 1 : 0;
  }
  EXPECT_GT(lost, 0);
  EXPECT_EQ(first_.count(wire::Opcode::kMultiWrite), 2) << "never sent twice";
}

TEST_F(MultiTest, LostRepliesOfReadsAreAskedForAgain) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->multi_write(operations(5, "v")))[0].has_value());
  bool lost = false;
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    if (!std::exchange(lost, true)) return node.restart_soon();
    stores_[0].answer(node, call);
  };
  for (const auto& found : world_.run(core->multi_read(operations(5)))) {
    ASSERT_TRUE(found.has_value()) << found.error().to_string();
    EXPECT_EQ(found->value, "v");
  }
}

TEST_F(MultiTest, TimeRunsOutForWhatIsLeft) {
  two_servers();
  auto core = make();
  answers_[0] = [](FakeNode& node, const FakeNode::Call& call) {
    node.error(call, StatusCode::kRetry, 1000);
  };
  const auto all = operations(20, "v");
  const auto written = world_.run(core->multi_write(all, 200ms));
  for (size_t i = 0; i < all.size(); ++i) {
    const bool first = key_hash(3, all[i].key) >> 63 == 0;
    EXPECT_EQ(code(written[i]), first ? StatusCode::kDeadlineExceeded : StatusCode::kOk);
  }
  table_.tablets[0].state = wire::TabletState::kUnavailable;
  answers_[0] = [](FakeNode& node, const FakeNode::Call& call) {
    node.error(call, StatusCode::kUnknownTablet);
  };
  const auto found = world_.run(core->multi_read(all, 200ms));
  for (size_t i = 0; i < all.size(); ++i) {
    const bool first = key_hash(3, all[i].key) >> 63 == 0;
    EXPECT_EQ(code(found[i]), first ? StatusCode::kUnavailable : StatusCode::kOk);
  }
}

TEST_F(MultiTest, ATableThatIsNotThereIsNotFound) {
  coordinate_ = [this](FakeNode& node, const FakeNode::Call& call) {
    if (call.opcode == wire::Opcode::kGetTable) {
      wire::GetTableRequest request;
      ASSERT_TRUE(wire::decode(call.body, call.handle.version, request));
      if (request.table_id != 3) return node.error(call, StatusCode::kNotFound);
    }
    answer_as_coordinator(node, call, table_);
  };
  auto core = make();
  const auto written =
      world_.run(core->multi_write({{3, "a", "v", {}}, {4, "b", "v", {}}, {3, "c", "v", {}}}));
  EXPECT_TRUE(written[0].has_value());
  EXPECT_EQ(code(written[1]), StatusCode::kNotFound);
  EXPECT_TRUE(written[2].has_value());
}

TEST_F(MultiTest, RepliesThatDoNotDecodeAreNotBelieved) {
  auto core = make();
  std::string answer;
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) { node.ok(call, answer); };
  const wire::MultiResult result{0, 0, 1, 1};
  const std::string good =
      std::string(bytes_of(wire::MultiReply{1, 0})) + std::string(bytes_of(result)) + "v";
  std::vector<std::string> wrong{good + "x", std::string(bytes_of(wire::MultiReply{0, 0})),
                                 std::string(bytes_of(wire::MultiReply{2, 0})) + good.substr(8)};
  for (size_t n = 0; n < good.size(); ++n) wrong.push_back(good.substr(0, n));
  for (const std::string& bytes : wrong) {
    answer = bytes;
    EXPECT_EQ(code(world_.run(core->multi_read(operations(1)))[0]), StatusCode::kProtocolError);
    EXPECT_EQ(code(world_.run(core->multi_write(operations(1)))[0]), StatusCode::kIndeterminate);
  }
  answer = good;
  EXPECT_EQ(world_.run(core->multi_read(operations(1)))[0]->value, "v");
}

}  // namespace
}  // namespace ramcloud
