#include "client/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "client/core_test_support.h"
#include "client/outcome.h"
#include "runtime/when_all.h"
#include "transport/testing/silent_listener.h"

namespace ramcloud {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(CoreTest, WritesReadsAndRemoves) {
  auto core = make();
  EXPECT_EQ(world_.run(core->write(3, "k", "v")).value(), 1u);
  auto found = world_.run(core->read(3, "k"));
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  EXPECT_EQ(found->value, "v");
  EXPECT_EQ(found->version, 1u);
  EXPECT_EQ(world_.run(core->remove(3, "k")).value(), 1u);
  EXPECT_EQ(world_.run(core->read(3, "k")).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(coordinator_.count(wire::Opcode::kGetTable), 1);  // cached since then
}

TEST_F(CoreTest, Increments) {
  auto core = make();
  const auto add = [&](wire::NumberType type, uint64_t delta) {
    return world_.run(core->increment(3, "n", type, delta));
  };
  EXPECT_EQ(add(wire::NumberType::kInt64, 5)->bits, 5u);
  const auto sum = add(wire::NumberType::kInt64, static_cast<uint64_t>(-7));
  EXPECT_EQ(static_cast<int64_t>(sum->bits), -2);
  EXPECT_EQ(sum->version, 2u);
  ASSERT_TRUE(world_.run(core->write(3, "n", "text")).has_value());
  EXPECT_EQ(add(wire::NumberType::kInt64, 1).error().code(), StatusCode::kInvalidArgument);
  answers_[0] = [&](FakeNode& node, const FakeNode::Call&) { node.restart_soon(); };
  EXPECT_EQ(add(wire::NumberType::kInt64, 1).error().code(), StatusCode::kIndeterminate);
  EXPECT_EQ(first_.count(wire::Opcode::kIncrement), 4);
}

TEST_F(CoreTest, ACallMayHaveADeadlineOfItsOwn) {
  auto core = make(1h);
  ASSERT_TRUE(world_.run(core->write(3, "k", "v")).has_value());
  answers_[0] = [](FakeNode&, const FakeNode::Call&) {};
  EXPECT_EQ(world_.run(core->read(3, "k", {}, 50ms)).error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(world_.run(core->write(3, "k", "w", {}, 50ms)).error().code(),
            StatusCode::kIndeterminate);
  EXPECT_EQ(world_.run(core->remove(3, "k", {}, 50ms)).error().code(), StatusCode::kIndeterminate);
}

TEST_F(CoreTest, ADestroyedTaskIsACancelledCall) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->write(3, "k", "v")).has_value());
  std::vector<FakeNode::Call> held;
  answers_[0] = [&](FakeNode&, const FakeNode::Call& call) { held.push_back(call); };
  bool resumed = false;
  {
    TaskScope scope(world_.reactor);
    scope.spawn([](ClientCore& c, bool& done) -> Task<void> {
      (void)co_await c.read(3, "k");
      done = true;
    }(*core, resumed));
    world_.reactor.run_until([&] { return !held.empty(); });
  }
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) { stores_[0].answer(node, call); };
  for (const auto& call : held) stores_[0].answer(first_, call);  // no call waits for this answer
  EXPECT_EQ(world_.run(core->read(3, "k")).value().value, "v");
  EXPECT_FALSE(resumed);
}

TEST_F(CoreTest, SendsEachKeyToTheServerOfItsHash) {
  table_ = table_over({{1, first_.locator()}, {2, second_.locator()}});
  auto core = make();
  for (int i = 0; i < 50; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_TRUE(world_.run(core->write(3, key, "v")).has_value());
    const int owner = key_hash(3, key) >> 63 ? 1 : 0;
    EXPECT_TRUE(stores_[owner].objects.contains(key)) << key;
    EXPECT_FALSE(stores_[1 - owner].objects.contains(key)) << key;
  }
}

TEST_F(CoreTest, AsksForANewMapWhenATabletHasMoved) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->write(3, "k", "old")).has_value());
  answers_[0] = [](FakeNode& node, const FakeNode::Call& call) {
    node.error(call, StatusCode::kUnknownTablet);
  };
  table_ = table_over({{2, second_.locator()}});
  EXPECT_TRUE(world_.run(core->write(3, "k", "new")).has_value());
  EXPECT_EQ(stores_[1].objects["k"].first, "new");
}

TEST_F(CoreTest, ManyCallsShareOneQuestionForTheMap) {
  auto core = make();
  std::vector<Task<Result<uint64_t>>> writes;
  for (int i = 0; i < 64; ++i) writes.push_back(core->write(3, "k" + std::to_string(i), "v"));
  for (const auto& written : world_.run(when_all(std::move(writes))))
    EXPECT_TRUE(written.has_value());
  EXPECT_EQ(coordinator_.count(wire::Opcode::kGetTable), 1);
  EXPECT_EQ(stores_[0].objects.size(), 64u);
}

TEST_F(CoreTest, WhoHasMoreTimeAsksAgain) {
  auto core = make();
  std::vector<FakeNode::Call> unanswered;
  const Answer as_usual = coordinate_;
  coordinate_ = [&](FakeNode& node, const FakeNode::Call& call) {
    if (call.opcode != wire::Opcode::kGetTable) return as_usual(node, call);
    unanswered.push_back(call);
  };
  const auto impatient = [&]() -> Task<Status> {
    auto found = co_await core->read(3, "k", {}, {40ms});
    coordinate_ = as_usual;
    co_return found ? Status() : std::move(found.error());
  };
  const auto patient = [&]() -> Task<Status> {
    auto written = co_await core->write(3, "k", "v");
    co_return written ? Status() : std::move(written.error());
  };
  std::vector<Task<Status>> both;
  both.push_back(impatient());
  both.push_back(patient());
  const auto outcomes = world_.run(when_all(std::move(both)));
  EXPECT_EQ(outcomes[0], StatusCode::kUnavailable);
  EXPECT_EQ(outcomes[1], StatusCode::kOk) << outcomes[1].to_string();
}

TEST_F(CoreTest, AWriteThatComesTooLateToBeSentHasNotHappened) {
  auto core = make(100ms);
  ASSERT_TRUE(world_.run(core->write(3, "k", "v", {}, {20s})).has_value());
  // The server answers RETRY with a short delay, and the process is suspended for longer than that.
  Timer stall(world_.reactor, [] { std::this_thread::sleep_for(150ms); });
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    node.error(call, StatusCode::kRetry, 20'000);
    stall.start_after(1ms);
  };
  const auto written = world_.run(core->write(3, "k", "w"));
  EXPECT_EQ(written.error().code(), StatusCode::kDeadlineExceeded) << written.error().to_string();
}

TEST_F(CoreTest, AConnectionThatWasClosedMeanwhileIsNotWrittenTo) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->write(3, "k", "v")).has_value());
  first_.restart();  // the reactor does not turn between the two calls
  const auto written = world_.run(core->write(3, "k", "w"));
  EXPECT_TRUE(written.has_value()) << written.error().to_string();
}

/// The table may exist: "nothing was changed" would be wrong.
TEST_F(CoreTest, ACreateWhoseReplyNeverComesIsIndeterminate) {
  auto core = make();
  coordinate_ = [this](FakeNode& node, const FakeNode::Call& call) {
    if (call.opcode != wire::Opcode::kCreateTable) answer_as_coordinator(node, call, table_);
  };
  EXPECT_EQ(world_.run(core->create_table("t", 1, 100ms)).error().code(),
            StatusCode::kIndeterminate);
  coordinate_ = [](FakeNode& node, const FakeNode::Call& call) {
    node.error(call, StatusCode::kRetry, 1000);
  };
  EXPECT_EQ(world_.run(core->create_table("t", 1, 100ms)).error().code(), StatusCode::kUnavailable);
}

/// A listener takes the connection, and says nothing: no request goes out.
TEST_F(CoreTest, ATableChangeThatWasNeverSentHasNotHappened) {
  const SilentListener silent;
  auto core = make(20s, {silent.locator()});
  EXPECT_EQ(world_.run(core->create_table("t", 1, 100ms)).error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(world_.run(core->drop_table("t", 100ms)).code(), StatusCode::kUnavailable);
}

TEST_F(CoreTest, WaitsAsLongAsTheServerAsks) {
  auto core = make();
  int refusals = 3;
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    if (refusals-- > 0) return node.error(call, StatusCode::kRetry, 20'000);
    stores_[0].answer(node, call);
  };
  const Time begin = world_.clock.now();
  EXPECT_TRUE(world_.run(core->write(3, "k", "v")).has_value());
  EXPECT_GE(world_.clock.now() - begin, 60ms);
  EXPECT_EQ(first_.count(wire::Opcode::kWrite), 4);
}

TEST_F(CoreTest, AWaitThatIsAskedForHasABound) {
  auto core = make();
  bool refused = false;
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    if (!refused) {
      refused = true;
      return node.error(call, StatusCode::kRetry, ~uint32_t{0});
    }
    stores_[0].answer(node, call);
  };
  EXPECT_TRUE(world_.run(core->write(3, "k", "v")).has_value());
}

TEST(WantsNewMapTest, RefusalsAskNowAndThen) {
  for (int in_vain = 0; in_vain < 64; ++in_vain) {
    EXPECT_EQ(wants_new_map(StatusCode::kRetry, 100, in_vain), in_vain % 16 == 15) << in_vain;
    EXPECT_TRUE(wants_new_map(StatusCode::kUnknownTablet, 0, in_vain));
    EXPECT_FALSE(wants_new_map(StatusCode::kConnectionLost, 0, in_vain));
  }
}

/// As from a server that reaches none of its backups. Another one has its tablet by then.
TEST_F(CoreTest, AChangeThatIsOnlyRefusedFindsTheNewOwner) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->write(3, "k", "old")).has_value());
  answers_[0] = [](FakeNode& node, const FakeNode::Call& call) {
    node.error(call, StatusCode::kRetry, 1000);
  };
  table_ = table_over({{2, second_.locator()}});
  const auto written = world_.run(core->write(3, "k", "new"));
  ASSERT_TRUE(written.has_value()) << written.error().to_string();
  EXPECT_EQ(stores_[1].objects["k"].first, "new");
  EXPECT_EQ(coordinator_.count(wire::Opcode::kGetTable), 2) << "it does not ask after each refusal";
}

TEST_F(CoreTest, AWriteWhoseReplyWasLostIsNeverRepeated) {
  auto core = make();
  answers_[0] = [&](FakeNode& node, const FakeNode::Call&) { node.restart_soon(); };
  const auto written = world_.run(core->write(3, "k", "v"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code(), StatusCode::kIndeterminate);
  EXPECT_THAT(written.error().message(), AllOf(HasSubstr("things"), HasSubstr("server 1")));
  EXPECT_EQ(first_.count(wire::Opcode::kWrite), 1);
  const auto removed = world_.run(core->remove(3, "k"));
  EXPECT_EQ(removed.error().code(), StatusCode::kIndeterminate);
  EXPECT_EQ(first_.count(wire::Opcode::kDelete), 1);
}

TEST_F(CoreTest, AWriteNobodyAnswersIsIndeterminateAtItsDeadline) {
  auto core = make(300ms);
  answers_[0] = [](FakeNode&, const FakeNode::Call&) {};
  const auto written = world_.run(core->write(3, "k", "v"));
  EXPECT_EQ(written.error().code(), StatusCode::kIndeterminate);
  EXPECT_EQ(first_.count(wire::Opcode::kWrite), 1);
}

TEST_F(CoreTest, AReadWhoseReplyWasLostIsRepeated) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->write(3, "k", "v")).has_value());
  bool lost = false;
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    if (!std::exchange(lost, true)) return node.restart_soon();
    stores_[0].answer(node, call);
  };
  const auto found = world_.run(core->read(3, "k"));
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  EXPECT_EQ(found->value, "v");
  EXPECT_EQ(first_.count(wire::Opcode::kRead), 2);
}

TEST_F(CoreTest, AWriteThatWasNeverSentGoesWhereTheNewMapSays) {
  auto core = make();
  first_.stop();
  int asked = 0;
  coordinate_ = [&](FakeNode& node, const FakeNode::Call& call) {
    if (call.opcode == wire::Opcode::kGetTable && ++asked == 3) {
      table_ = table_over({{2, second_.locator()}});
    }
    answer_as_coordinator(node, call, table_);
  };
  const auto written = world_.run(core->write(3, "k", "v"));
  ASSERT_TRUE(written.has_value()) << written.error().to_string();
  EXPECT_EQ(stores_[1].objects.count("k"), 1u);
}

TEST_F(CoreTest, AnotherServerAtTheAddressIsNotWrittenTo) {
  table_ = table_over({{9, first_.locator()}});
  auto core = make(300ms);
  EXPECT_EQ(world_.run(core->write(3, "k", "v")).error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(first_.count(wire::Opcode::kWrite), 0);
}

TEST_F(CoreTest, AServerOfAnotherClusterAtTheAddressIsNotTheEnd) {
  FakeNode foreign(world_, 1, answers_[1], 8);
  table_ = table_over({{1, foreign.locator()}});
  coordinate_ = [&](FakeNode& node, const FakeNode::Call& call) {
    if (node.count(wire::Opcode::kGetTable) == 3) table_ = table_over({{1, first_.locator()}});
    answer_as_coordinator(node, call, table_);
  };
  auto core = make();
  const auto written = world_.run(core->write(3, "k", "v"));
  EXPECT_TRUE(written.has_value()) << written.error().to_string();
  const auto found = world_.run(core->read(3, "k"));
  EXPECT_TRUE(found.has_value()) << found.error().to_string();
  EXPECT_EQ(foreign.count(wire::Opcode::kWrite), 0);

  // A scan and a multi-operation with an outdated map.
  table_ = table_over({{1, foreign.locator()}});
  auto other = make();
  ASSERT_TRUE(world_.run(other->open_table("things")).has_value());
  table_ = table_over({{1, first_.locator()}});
  for (const auto& result :
       world_.run(other->multi_write({{3, "a", "v", {}}, {3, "b", "v", {}}}))) {
    EXPECT_TRUE(result.has_value()) << result.error().to_string();
  }
  EXPECT_EQ(stores_[0].objects.size(), 3u);
}

TEST_F(CoreTest, AnotherClusterIsForItsCoordinatorsToSay) {
  auto core = make(1h);
  ASSERT_TRUE(world_.run(core->write(3, "k", "v")).has_value());
  for (FakeNode* node : {&first_, &second_, &coordinator_}) {
    node->cluster = 8;
    node->restart();
  }
  EXPECT_EQ(world_.run(core->write(3, "k", "w")).error().code(), StatusCode::kWrongCluster);
  EXPECT_EQ(world_.run(core->read(3, "k")).error().code(), StatusCode::kWrongCluster);
  EXPECT_EQ(world_.run(core->multi_write({{3, "k", "w", {}}}))[0].error().code(),
            StatusCode::kWrongCluster);
  EXPECT_EQ(first_.count(wire::Opcode::kWrite), 1);
  EXPECT_EQ(first_.count(wire::Opcode::kMultiWrite), 0);
}

TEST_F(CoreTest, OneCoordinatorOfAnotherClusterIsNotTheEnd) {
  FakeNode foreign(world_, 0, coordinate_, 8);
  auto core = make(20s, {coordinator_.locator(), foreign.locator()});
  ASSERT_TRUE(world_.run(core->open_table("things")).has_value());
  // Our coordinator is away for a moment, and the client asks the other address.
  Timer back(world_.reactor, [this] { coordinator_.restart(); });
  for (int i = 0; i < 3; ++i) {
    coordinator_.stop();
    back.start_after(50ms);
    const auto opened = world_.run(core->open_table("things"));
    EXPECT_TRUE(opened.has_value()) << opened.error().to_string();
  }
  coordinator_.cluster = 8;
  coordinator_.restart();
  EXPECT_EQ(world_.run(core->open_table("things")).error().code(), StatusCode::kWrongCluster);
  EXPECT_EQ(world_.run(core->drop_table("things")).code(), StatusCode::kWrongCluster);
  EXPECT_EQ(foreign.count(wire::Opcode::kDropTable), 0);
}

/// As servers call: one try at a time.
TEST_F(CoreTest, ATryAtACoordinatorOfAnotherClusterLeadsToTheNext) {
  FakeNode foreign(world_, 0, coordinate_, 8);
  RpcClient rpc(world_.reactor, transport_);
  rpc.set_cluster_uuid({7});
  CoordinatorLink link(rpc, {foreign.locator(), coordinator_.locator()});
  const auto ask = [&] {
    auto info = world_.run(link.try_once<wire::ClusterInfo>(
        wire::Opcode::kGetClusterInfo, wire::Empty{}, world_.clock.now() + 5s));
    return info ? Status() : info.error();
  };
  EXPECT_EQ(ask(), StatusCode::kUnavailable);
  EXPECT_EQ(link.target(), coordinator_.locator());
  EXPECT_EQ(ask(), StatusCode::kOk);
}

TEST_F(CoreTest, ADeadTabletIsNamedAtTheDeadline) {
  table_.tablets[0].state = wire::TabletState::kUnavailable;
  table_.tablets[0].locator.clear();
  auto core = make(300ms);
  const auto found = world_.run(core->read(3, "k"));
  EXPECT_EQ(found.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(found.error().message(),
              AllOf(HasSubstr("table 'things' (id 3)"),
                    HasSubstr("tablet 0000000000000000-ffffffffffffffff of server 1")));
  EXPECT_GT(coordinator_.count(wire::Opcode::kGetTable), 1);
}

TEST_F(CoreTest, GoesOnWithAKnownMapWhileTheCoordinatorIsAway) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->write(3, "k", "v")).has_value());
  coordinator_.stop();
  EXPECT_TRUE(world_.run(core->write(3, "k", "w")).has_value());
  first_.restart();
  EXPECT_TRUE(world_.run(core->read(3, "k")).has_value());
}

TEST_F(CoreTest, BadArgumentsAreRefusedBeforeAnythingIsSent) {
  auto core = make();
  const auto no_key = world_.run(core->read(3, ""));
  EXPECT_EQ(no_key.error().code(), StatusCode::kInvalidArgument);
  const auto long_key = world_.run(core->remove(3, std::string(65'536, 'k')));
  EXPECT_THAT(long_key.error().message(), AllOf(HasSubstr("65536"), HasSubstr("65535")));
  const auto long_value = world_.run(core->write(3, "k", std::string(1'048'577, 'v')));
  EXPECT_THAT(long_value.error().message(), AllOf(HasSubstr("value"), HasSubstr("1048577")));
  for (const std::string& name :
       {std::string(), std::string(256, 'n'), std::string("a\nb"), std::string("caf\xc3\xa9")}) {
    EXPECT_EQ(world_.run(core->create_table(name, 1)).error().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(world_.run(core->drop_table(name)).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(coordinator_.count(wire::Opcode::kCreateTable), 0);
  EXPECT_EQ(coordinator_.count(wire::Opcode::kGetTable), 0);
  EXPECT_TRUE(world_.run(core->create_table(std::string(255, '~'), 1)).has_value());
  EXPECT_TRUE(world_.run(core->write(3, std::string(65'535, 'k'), std::string(1'048'576, 'v')))
                  .has_value());
}

TEST_F(CoreTest, RepliesThatDoNotDecodeAreNotBelieved) {
  auto core = make();
  answers_[0] = [](FakeNode& node, const FakeNode::Call& call) { node.ok(call, "xyz"); };
  EXPECT_EQ(world_.run(core->read(3, "k")).error().code(), StatusCode::kProtocolError);
  EXPECT_EQ(world_.run(core->write(3, "k", "v")).error().code(), StatusCode::kIndeterminate);
  ClientCore::ScanPosition position;
  EXPECT_EQ(world_.run(core->scan_page(3, position, false)).error().code(),
            StatusCode::kProtocolError);
}

TEST_F(CoreTest, FollowsAStandbyToTheLeader) {
  FakeNode standby(world_, 0, [this](FakeNode& node, const FakeNode::Call& call) {
    node.error(call, Status(StatusCode::kNotLeader,
                            "standby; ask " + coordinator_.locator().address.to_string()));
  });
  auto core = make(20s, {standby.locator()});
  EXPECT_TRUE(world_.run(core->write(3, "k", "v")).has_value());
}

TEST_F(CoreTest, WaitsAsLongAsACoordinatorAsksWhateverTheStatus) {
  auto core = make();
  ASSERT_TRUE(world_.run(core->open_table("things")).has_value());
  int refusals = 3;
  const Answer as_usual = coordinate_;
  coordinate_ = [&](FakeNode& node, const FakeNode::Call& call) {
    if (refusals-- <= 0) return as_usual(node, call);
    wire::ErrorDetails details;
    details.retry_after_us = 20'000;
    node.error(call, {StatusCode::kNotLeader, "nobody leads"}, 0, details);
  };
  const Time begin = world_.clock.now();
  EXPECT_TRUE(world_.run(core->open_table("things")).has_value());
  EXPECT_GE(world_.clock.now() - begin, 60ms);
}

TEST_F(CoreTest, AWaitThatACoordinatorAsksForHasABound) {
  auto core = make();
  bool refused = false;
  const Answer as_usual = coordinate_;
  coordinate_ = [&](FakeNode& node, const FakeNode::Call& call) {
    if (refused) return as_usual(node, call);
    refused = true;
    wire::ErrorDetails details;
    details.retry_after_us = ~uint32_t{0};
    node.error(call, {StatusCode::kNotLeader, "nobody leads"}, 0, details);
  };
  EXPECT_TRUE(world_.run(core->open_table("things")).has_value());
}

TEST_F(CoreTest, TriesEachCoordinator) {
  FakeNode dead(world_, 0, coordinate_);
  const Locator locator = dead.locator();
  dead.stop();
  auto core = make(20s, {locator, coordinator_.locator()});
  EXPECT_TRUE(world_.run(core->open_table("things")).has_value());
}

TEST_F(CoreTest, DroppingIsNotRepeatedButCreatingIs) {
  auto core = make();
  int lost = 0;
  coordinate_ = [&](FakeNode& node, const FakeNode::Call& call) {
    const bool loses = call.opcode == wire::Opcode::kDropTable ||
                       (call.opcode == wire::Opcode::kCreateTable && ++lost == 1);
    if (loses) return node.restart_soon();
    answer_as_coordinator(node, call, table_);
  };
  EXPECT_TRUE(world_.run(core->create_table("things", 1)).has_value());
  EXPECT_EQ(coordinator_.count(wire::Opcode::kCreateTable), 2);
  EXPECT_EQ(world_.run(core->drop_table("things")).code(), StatusCode::kIndeterminate);
  EXPECT_EQ(coordinator_.count(wire::Opcode::kDropTable), 1);
}

TEST_F(CoreTest, ACoordinatorThatGivesAMapWithAGapIsNotBelieved) {
  table_.tablets[0].start_hash = 5;
  auto core = make();
  EXPECT_EQ(world_.run(core->open_table("things")).error().code(), StatusCode::kProtocolError);
}

TEST_F(CoreTest, TablesAreListedPageByPage) {
  const Answer as_usual = coordinate_;
  coordinate_ = [&](FakeNode& node, const FakeNode::Call& call) {
    if (call.opcode != wire::Opcode::kListTables) return as_usual(node, call);
    wire::ListTablesRequest request;
    ASSERT_TRUE(wire::decode(call.body, call.handle.version, request));
    EXPECT_GT(request.max_bytes, 0u);
    wire::ListTablesReply reply;
    reply.tables.push_back({.table_id = request.first_id, .name = "t", .tablets = {}});
    reply.next_id = request.first_id < 4 ? request.first_id + 1 : 0;
    node.ok(call, wire::encode(reply, call.handle.version));
  };
  auto core = make();
  const auto tables = world_.run(core->list_tables());
  ASSERT_TRUE(tables.has_value()) << tables.error().to_string();
  ASSERT_EQ(tables->size(), 5u);
  EXPECT_EQ(tables->back().table_id, 4u);
  coordinate_ = [&](FakeNode& node, const FakeNode::Call& call) {
    const wire::ListTablesReply stuck{.tables = {}, .next_id = 1};
    node.ok(call, wire::encode(stuck, call.handle.version));
  };
  EXPECT_EQ(world_.run(core->list_tables()).error().code(), StatusCode::kProtocolError);
}

/// Answers an enumeration with two objects a page.
void answer_scan(FakeNode& node, const FakeNode::Call& call, const std::vector<std::string>& keys,
                 uint64_t tablet_end) {
  const auto request = load<wire::EnumerateRequest>(call.body.data());
  const uint64_t end = std::min<uint64_t>(request.cursor + 2, keys.size());
  wire::EnumerateReply header{};
  header.next_cursor = end;
  header.tablet_end = tablet_end;
  header.count = static_cast<uint32_t>(end - request.cursor);
  header.done = end == keys.size() ? 1 : 0;
  std::string body(bytes_of(header));
  for (uint64_t i = request.cursor; i < end; ++i) {
    const wire::EnumeratedObject object{i, 1, static_cast<uint16_t>(keys[i].size()), 0};
    body.append(bytes_of(object)).append(keys[i]).append("v");
  }
  node.ok(call, body);
}

TEST_F(CoreTest, ScansAllTabletsPageByPage) {
  table_ = table_over({{1, first_.locator()}, {2, second_.locator()}});
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    answer_scan(node, call, {"a", "b", "c"}, tablet_end(0, 2));
  };
  answers_[1] = [&](FakeNode& node, const FakeNode::Call& call) {
    answer_scan(node, call, {"d", "e"}, tablet_end(1, 2));
  };
  auto core = make();
  ClientCore::ScanPosition position;
  std::string seen;
  while (!position.done) {
    auto page = world_.run(core->scan_page(3, position, false));
    ASSERT_TRUE(page.has_value()) << page.error().to_string();
    while (const auto object = page->next()) {
      EXPECT_EQ(object->value, "v");
      seen += object->key;
    }
  }
  EXPECT_EQ(seen, "abcde");
  EXPECT_EQ(first_.count(wire::Opcode::kEnumerate), 2);
}

/// Answers an enumeration like present servers, whose cursors are places: key `place` has the hash
/// hashes[place]. Two objects a page, of a tablet from `start` to `end`.
void answer_places(FakeNode& node, const FakeNode::Call& call, const std::vector<uint64_t>& hashes,
                   uint64_t start, uint64_t end) {
  const auto request = load<wire::EnumerateRequest>(call.body.data());
  if (request.start_hash < start || request.start_hash > end) {
    return node.error(call, StatusCode::kUnknownTablet);
  }
  wire::EnumerateReply header{};
  header.tablet_end = end;
  header.cursor_is_place = header.done = 1;
  std::string objects;
  for (uint64_t place = request.cursor; place < hashes.size(); ++place) {
    if (hashes[place] < start || hashes[place] > end) continue;
    if (header.count == 2) {
      header.done = 0;
      header.next_cursor = place;
      break;
    }
    ++header.count;
    const std::string key = std::to_string(place);
    const wire::EnumeratedObject object{1, 1, static_cast<uint16_t>(key.size()), 0};
    objects.append(bytes_of(object)).append(key).append("v");
  }
  node.ok(call, std::string(bytes_of(header)) + objects);
}

TEST_F(CoreTest, AScanGoesOnWhenItsTabletMovesAndIsSplit) {
  constexpr uint64_t kLast = ~uint64_t{0}, kMiddle = kLast / 2;
  const std::vector<uint64_t> hashes = {9, kLast, kMiddle, 1, kMiddle + 1, 5, kLast - 1, 7, 0};
  table_ = table_over({{1, first_.locator()}});
  bool moved = false;
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    if (moved) return answer_places(node, call, hashes, kMiddle + 1, kLast);
    answer_places(node, call, hashes, 0, kLast);
  };
  answers_[1] = [&](FakeNode& node, const FakeNode::Call& call) {
    answer_places(node, call, hashes, 0, kMiddle);
  };
  auto core = make();
  ClientCore::ScanPosition position;
  std::multiset<std::string> seen;
  int pages = 0;
  while (!position.done) {
    if (++pages == 3) {
      // The owner keeps the second half; the client finds that out when the map is asked for again.
      moved = true;
      table_ = table_over({{2, second_.locator()}, {1, first_.locator()}});
    }
    auto page = world_.run(core->scan_page(3, position, false));
    ASSERT_TRUE(page.has_value()) << page.error().to_string();
    while (const auto object = page->next()) seen.insert(std::string(object->key));
  }
  EXPECT_EQ(seen.size(), hashes.size());
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), hashes.size());
}

/// All keys have one hash: place 5. Two objects a page.
void answer_one_hash(FakeNode& node, const FakeNode::Call& call,
                     const std::vector<std::string>& keys) {
  const auto request = load<wire::EnumerateRequest>(call.body.data());
  const std::string after = call.body.substr(sizeof request);
  wire::EnumerateReply header{};
  header.tablet_end = ~uint64_t{0};
  header.cursor_is_place = header.done = 1;
  std::string objects;
  for (const std::string& key : keys) {
    if (request.cursor > 5 || (request.cursor == 5 && key <= after)) continue;
    if (header.count == 2) {
      header.done = 0;
      header.within_hash = 1;
      header.next_cursor = 5;
      break;
    }
    ++header.count;
    const wire::EnumeratedObject object{1, 1, static_cast<uint16_t>(key.size()), 0};
    objects.append(bytes_of(object)).append(key).append("v");
  }
  node.ok(call, std::string(bytes_of(header)) + objects);
}

TEST_F(CoreTest, AScanGoesOnAmongObjectsOfOneHash) {
  answers_[0] = [&](FakeNode& node, const FakeNode::Call& call) {
    answer_one_hash(node, call, {"a", "b", "c", "d", "e"});
  };
  auto core = make();
  ClientCore::ScanPosition position;
  std::string seen;
  for (int pages = 0; pages < 10 && !position.done; ++pages) {
    auto page = world_.run(core->scan_page(3, position, false));
    ASSERT_TRUE(page.has_value()) << page.error().to_string();
    while (const auto object = page->next()) seen += object->key;
  }
  EXPECT_EQ(seen, "abcde");
}

TEST(ScanPageTest, RefusesEveryTruncationAndAnyLie) {
  wire::EnumerateReply header{};
  header.count = 2;
  std::string body(bytes_of(header));
  for (int i = 0; i < 2; ++i) {
    const wire::EnumeratedObject object{1, 3, 2, 0};
    body.append(bytes_of(object)).append("kkvvv");
  }
  ASSERT_TRUE(ScanPage::parse(body, false).has_value());
  for (size_t n = 0; n < body.size(); ++n) {
    EXPECT_FALSE(ScanPage::parse(body.substr(0, n), false).has_value()) << n;
  }
  EXPECT_FALSE(ScanPage::parse(body + "x", false).has_value());
  header.count = ~0u;
  body.replace(0, sizeof header, bytes_of(header));
  EXPECT_FALSE(ScanPage::parse(body, false).has_value());
}

TEST(LeaderInTest, FindsAnAddressInTheText) {
  EXPECT_EQ(leader_in("not the leader, ask 10.0.0.1:11100.", "tcp")->address.port, 11100);
  EXPECT_EQ(leader_in("tcp:host=a,port=5", "tcp")->address.host, "a");
  EXPECT_FALSE(leader_in("nobody leads", "tcp").has_value());
  EXPECT_FALSE(leader_in("", "tcp").has_value());
}

TEST(BackOffTest, RisesToABoundAndHonoursTheServer) {
  Random random(1);
  BackOff back_off;
  for (int i = 0; i < 20; ++i) {
    const Duration wait = back_off.next(random);
    const Duration step = std::min(BackOff::kFirst * (1 << std::min(i, 10)), BackOff::kLast);
    EXPECT_GE(wait, step / 2);
    EXPECT_LE(wait, step);
  }
  EXPECT_EQ(back_off.next(random, 5s), 5s);
  EXPECT_EQ(back_off.next_asked(random, 700'000), 700ms);
  EXPECT_EQ(back_off.next_asked(random, 5'000'000), BackOff::kMostAsked);
}

}  // namespace
}  // namespace ramcloud
