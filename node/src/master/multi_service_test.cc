// Multi-operations at a master: the answers, the slices, and the position each reply depends on.
#include "master/multi_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "master/testing/master_fixture.h"
#include "transport/testing/recorded_replies.h"
#include "wire/data_messages.h"

namespace ramcloud::master {
namespace {

using ramcloud::testing::RecordedReplies;

constexpr auto kRead = wire::Opcode::kMultiRead;
constexpr auto kWrite = wire::Opcode::kMultiWrite;
constexpr auto kDelete = wire::Opcode::kMultiDelete;

struct One {
  StatusCode status;
  uint64_t version;
  std::string value;
};

class MultiServiceTest : public testing::MasterFixture<RecordedReplies> {
 protected:
  explicit MultiServiceTest(bool durable_at_once = true)
      : MasterFixture(8, durable_at_once), durable_at_once_(durable_at_once) {
    own_table(1);
    service_.attach(store_);
  }
  static std::string keyed(uint64_t table, ByteView key, wire::RejectRules reject = {}) {
    const wire::ReadRequest request{table, reject, static_cast<uint16_t>(key.size()), {}};
    return std::string(bytes_of(request)).append(key);
  }
  static std::string written(uint64_t table, ByteView key, ByteView value,
                             wire::RejectRules reject = {}) {
    const wire::WriteRequest request{table, reject, static_cast<uint32_t>(value.size()),
                                     static_cast<uint16_t>(key.size()), 0};
    return std::string(bytes_of(request)).append(key).append(value);
  }
  static std::string message(const std::vector<std::string>& operations,
                             uint32_t max_bytes = 1 << 20) {
    std::string body(
        bytes_of(wire::MultiRequest{static_cast<uint32_t>(operations.size()), max_bytes}));
    for (const auto& operation : operations) body += operation;
    return body;
  }
  void make_all_durable() {
    parts_.replicator.finish_all();
    replies_.on_turn();
  }
  void finish() {
    while (service_.on_turn()) {
    }
    if (durable_at_once_) make_all_durable();
  }
  static std::vector<One> parse(const RecordedReplies::Reply& reply) {
    EXPECT_EQ(reply.status, StatusCode::kOk);
    std::vector<One> all;
    const auto header = load<wire::MultiReply>(reply.body.data());
    size_t at = sizeof header;
    for (uint32_t i = 0; i < header.count; ++i) {
      const auto result = load<wire::MultiResult>(reply.body.data() + at);
      at += sizeof result;
      all.push_back({static_cast<StatusCode>(result.status), result.version,
                     reply.body.substr(at, result.value_length)});
      at += result.value_length;
    }
    EXPECT_EQ(at, reply.body.size());
    return all;
  }
  std::vector<One> call(wire::Opcode opcode, const std::string& body) {
    const uint64_t id = send(opcode, body);
    finish();
    EXPECT_TRUE(transport_.by_call.contains(id));
    return parse(transport_.by_call[id]);
  }

  bool durable_at_once_;
  MultiService service_{registry_, node_.reactor(), replies_, metrics_};
};

TEST_F(MultiServiceTest, EachOperationHasItsOwnOutcome) {
  const wire::RejectRules if_absent{wire::RejectRules::kIfAbsent, 0, 0};
  auto all = call(kWrite, message({written(1, "a", "one"), written(2, "b", "other table"),
                                   written(1, "c", "x", if_absent), written(1, "d", ""),
                                   written(1, "a", "two")}));
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].status, StatusCode::kOk);
  EXPECT_EQ(all[1].status, StatusCode::kUnknownTablet);
  EXPECT_EQ(all[2].status, StatusCode::kNotFound);
  EXPECT_EQ(all[3].status, StatusCode::kOk);
  EXPECT_GT(all[4].version, all[0].version) << "in their order";
  const uint64_t version = all[4].version;

  all = call(kRead, message({keyed(1, "a"), keyed(1, "none"), keyed(1, "d")}));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].value, "two");
  EXPECT_EQ(all[0].version, version);
  EXPECT_EQ(all[1].status, StatusCode::kNotFound);
  EXPECT_EQ(all[2].status, StatusCode::kOk);
  EXPECT_EQ(all[2].value, "");

  all = call(kDelete, message({keyed(1, "a"), keyed(1, "a"), keyed(1, "d", if_absent)}));
  EXPECT_EQ(all[0].version, version);
  EXPECT_EQ(all[1].status, StatusCode::kOk);
  EXPECT_EQ(all[1].version, 0u) << "there was none any more";
  EXPECT_EQ(all[2].status, StatusCode::kOk);
  EXPECT_EQ(store_.object_count(1), 0u);
}

TEST_F(MultiServiceTest, LargeMessagesAreDoneInSlices) {
  std::vector<std::string> operations;
  for (int i = 0; i < 100; ++i) {
    operations.push_back(written(1, "k" + std::to_string(i), std::string(100, 'v')));
  }
  const uint64_t large = send(kWrite, message(operations));
  EXPECT_EQ(service_.waiting(), 1u);
  EXPECT_EQ(store_.object_count(1), MultiService::kSliceChanges);
  // Another large one takes turns with it, and a small one overtakes both.
  const uint64_t second = send(kWrite, message(operations));
  const uint64_t small = send(kRead, message({keyed(1, "k0")}));
  make_all_durable();
  EXPECT_TRUE(transport_.by_call.contains(small));
  EXPECT_FALSE(transport_.by_call.contains(large));
  int turns = 0;
  while (service_.on_turn()) {
    ++turns;
    if (turns == 2) EXPECT_EQ(store_.object_count(1), 2 * MultiService::kSliceChanges);
  }
  make_all_durable();
  const int slices = (100 - 1) / static_cast<int>(MultiService::kSliceChanges);  // after the first
  EXPECT_EQ(turns, 2 * slices);
  EXPECT_EQ(parse(transport_.by_call[large]).size(), 100u);
  EXPECT_EQ(parse(transport_.by_call[second]).size(), 100u);
  EXPECT_EQ(store_.object_count(1), 100u);
}

TEST_F(MultiServiceTest, AChangeDoesNotOvertakeOneThatWasRefused) {
  // The tablet comes between two slices of the message.
  std::vector<std::string> operations{written(2, "k", "first")};
  for (uint32_t i = 1; i < MultiService::kSliceChanges; ++i) {
    operations.push_back(written(1, "k" + std::to_string(i), "v"));
  }
  operations.push_back(written(2, "k", "second"));
  operations.push_back(written(2, "other", "third"));
  const uint64_t id = send(kWrite, message(operations));
  ASSERT_EQ(service_.waiting(), 1u);
  ASSERT_TRUE(store_.take_tablet(2, 0, ~uint64_t{0}).ok());
  finish();
  const auto all = parse(transport_.by_call[id]);
  ASSERT_EQ(all.size(), operations.size());
  EXPECT_EQ(all.front().status, StatusCode::kUnknownTablet);
  EXPECT_EQ(all[all.size() - 2].status, StatusCode::kUnknownTablet);
  EXPECT_EQ(all.back().status, StatusCode::kOk);
  EXPECT_EQ(call(kRead, message({keyed(2, "k")}))[0].status, StatusCode::kNotFound);
}

TEST_F(MultiServiceTest, RepliesAreCapped) {
  const std::string value(300'000, 'v');
  for (const char* key : {"a", "b", "c", "d", "e"}) call(kWrite, message({written(1, key, value)}));
  const auto keys =
      std::vector{keyed(1, "a"), keyed(1, "b"), keyed(1, "c"), keyed(1, "d"), keyed(1, "e")};
  EXPECT_EQ(call(kRead, message(keys, ~0u)).size(), 3u) << "the server's own limit";
  EXPECT_EQ(call(kRead, message(keys, 700'000)).size(), 2u);
  EXPECT_EQ(call(kRead, message(keys, 0)).size(), 1u) << "one is always answered";
  call(kWrite, message({written(1, "most", std::string(1'048'576, 'v'))}));
  EXPECT_EQ(call(kRead, message({keyed(1, "most")}))[0].value.size(), 1'048'576u);
}

TEST_F(MultiServiceTest, LimitsAreExact) {
  auto all = call(kWrite, message({written(1, std::string(65'535, 'k'), "v"),
                                   written(1, "v", std::string(1'048'577, 'v')),
                                   written(1, "v", std::string(1'048'576, 'v'))}));
  EXPECT_EQ(all[0].status, StatusCode::kOk);
  EXPECT_EQ(all[1].status, StatusCode::kInvalidArgument);
  EXPECT_EQ(all[2].status, StatusCode::kOk);
}

TEST_F(MultiServiceTest, MalformedMessagesChangeNothing) {
  const std::string good = message({written(1, "a", "1"), written(1, "b", "2")});
  std::vector<std::string> wrong{message({}), good + "x"};
  for (size_t n = 0; n < good.size(); ++n) wrong.push_back(good.substr(0, n));
  std::string lie = good;
  lie[0] = 3;  // one operation more than there are
  wrong.push_back(lie);
  std::vector<std::string> many(wire::kMaxMultiCount + 1, written(1, "k", ""));
  wrong.push_back(message(many));
  for (const std::string& body : wrong) {
    const uint64_t id = send(kWrite, body);
    ASSERT_EQ(transport_.by_call[id].status, StatusCode::kInvalidArgument) << body.size();
  }
  EXPECT_EQ(store_.object_count(1), 0u);
  many.pop_back();
  EXPECT_EQ(call(kWrite, message(many)).size(), wire::kMaxMultiCount);
}

TEST_F(MultiServiceTest, GarbageIsAnsweredOnce) {
  Random random(7);
  const std::string writes = message({written(1, "a", "1"), written(1, "bb", "22")});
  const std::string reads = message({keyed(1, "a"), keyed(1, "bb"), keyed(1, "none")});
  uint64_t fine = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const bool writing = random.chance(0.3);
    std::string body = writing ? writes : reads;
    for (uint64_t n = random.below(4); n > 0; --n) {
      body[random.below(body.size())] = static_cast<char>(random.below(256));
    }
    if (random.chance(0.3)) body.resize(random.below(body.size() + 20));
    const uint64_t id = send(writing ? kWrite : random.chance(0.5) ? kRead : kDelete, body);
    finish();
    ASSERT_TRUE(transport_.by_call.contains(id));
    ++(transport_.by_call[id].status == StatusCode::kOk ? fine : refused);
    transport_.by_call.clear();
  }
  EXPECT_GT(fine, 1000u);
  EXPECT_GT(refused, 1000u);
  EXPECT_EQ(service_.waiting(), 0u);
}

TEST_F(MultiServiceTest, WhoHasStoppedWaitingIsNotServedOn) {
  std::vector<std::string> operations;
  for (int i = 0; i < 100; ++i) operations.push_back(written(1, "k" + std::to_string(i), "v"));
  const uint64_t in_time = send(kWrite, message(operations), 10);
  finish();
  EXPECT_EQ(parse(transport_.by_call[in_time]).size(), 100u);
  const uint64_t late = send(kWrite, message(operations), 10);
  Timer alarm(node_.reactor(), [] {});
  alarm.start_after(11ms);
  sim_.run_for(20ms);
  finish();
  EXPECT_EQ(parse(transport_.by_call[late]).size(), MultiService::kSliceChanges);
}

TEST_F(MultiServiceTest, ResultsOfManyMessagesKeepToTheLimitAndAllAreAnswered) {
  call(kWrite, message({written(1, "a", std::string(1'000'000, 'a'))}));
  call(kWrite, message({written(1, "b", std::string(1'000'000, 'b'))}));
  ASSERT_EQ(transport_.charged, 0);
  transport_.by_call.clear();
  transport_.room = 8 << 20;
  transport_.most_charged = 0;
  const std::string two = message({keyed(1, "a"), keyed(1, "b")});
  std::vector<uint64_t> sent;
  uint64_t answered = 0;
  for (int i = 0; i < 256; ++i) {
    sent.push_back(send(kRead, two));
    for (const auto& [id, reply] : transport_.by_call) {
      const auto all = parse(reply);
      ASSERT_EQ(all.size(), 1u);
      ASSERT_TRUE(all[0].value == std::string(1'000'000, 'a'));
      ++answered;
    }
    transport_.by_call.clear();
  }
  EXPECT_LE(transport_.most_charged, transport_.room);
  EXPECT_GT(answered, 200u) << "without room a value is sent from the log";
  while (service_.on_turn()) {
  }
  for (const auto& [id, reply] : transport_.by_call) {
    ASSERT_EQ(parse(reply).size(), 1u);
    ++answered;
  }
  EXPECT_EQ(answered, sent.size());
  EXPECT_EQ(transport_.charged, 0);
}

TEST_F(MultiServiceTest, ALargeValueIsCopiedInSlices) {
  const std::string value = std::string(500'000, 'x') + std::string(500'000, 'y');
  call(kWrite, message({written(1, "large", value)}));
  const uint64_t id = send(kRead, message({keyed(1, "large")}));
  int turns = 0;
  while (service_.on_turn()) ++turns;
  EXPECT_EQ(turns, static_cast<int>(1'000'000 / MultiService::kSliceBytes));
  ASSERT_TRUE(transport_.by_call.contains(id));
  EXPECT_TRUE(parse(transport_.by_call[id]).at(0).value == value);
}

TEST_F(MultiServiceTest, AValueThatChangesWhileItIsCopiedIsOfOneVersion) {
  const auto write = [&](char with) {
    uint64_t version = 0;
    log::LogPosition depends_on;
    ASSERT_EQ(store_.write(1, "k", std::string(300'000, with), {}, version, depends_on),
              StatusCode::kOk);
  };
  write('a');
  const uint64_t id = send(kRead, message({keyed(1, "none"), keyed(1, "k")}));
  for (const char with : {'b', 'c', 'd', 'e', 'f', 'g'}) {
    if (!service_.on_turn()) break;
    write(with);
  }
  finish();
  ASSERT_TRUE(transport_.by_call.contains(id));
  const auto all = parse(transport_.by_call[id]);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, StatusCode::kNotFound);
  ASSERT_EQ(all[1].value.size(), 300'000u);
  EXPECT_TRUE(all[1].value == std::string(300'000, all[1].value[0]));
  EXPECT_GT(all[1].value[0], 'a');
}

TEST_F(MultiServiceTest, JobsOfClosedConnectionsAreDropped) {
  std::vector<std::string> operations;
  for (int i = 0; i < 200; ++i) operations.push_back(written(1, "k" + std::to_string(i), "v"));
  std::vector<uint64_t> sent;
  for (int i = 0; i < 50; ++i) sent.push_back(send(kWrite, message(operations)));
  const uint64_t stays = send(kWrite, message(operations));
  EXPECT_GT(transport_.charged, 0);
  transport_.closed_calls.insert(sent.begin(), sent.end());
  ASSERT_TRUE(service_.on_turn());
  EXPECT_EQ(service_.waiting(), 1u);
  finish();
  EXPECT_EQ(transport_.by_call.size(), 1u);
  EXPECT_EQ(parse(transport_.by_call[stays]).size(), 200u);
  EXPECT_EQ(transport_.charged, 0);
}

class MultiServiceHeldTest : public MultiServiceTest {
 protected:
  MultiServiceHeldTest() : MultiServiceTest(false) {}
};

TEST_F(MultiServiceHeldTest, RepliesWaitForTheNewestOfWhatTheyDependOn) {
  const uint64_t write = send(kWrite, message({written(1, "a", "1"), written(1, "b", "2")}));
  EXPECT_FALSE(transport_.by_call.contains(write));
  make_all_durable();
  ASSERT_TRUE(transport_.by_call.contains(write));

  // Old objects, a fresh absence: the reply waits for the delete.
  const uint64_t remove = send(kDelete, message({keyed(1, "a")}));
  const uint64_t read = send(kRead, message({keyed(1, "b"), keyed(1, "a")}));
  const wire::RejectRules if_exists{wire::RejectRules::kIfExists, 0, 0};
  send(kWrite, message({written(1, "c", "3")}));
  const uint64_t refused = send(kWrite, message({written(1, "c", "4", if_exists)}));
  EXPECT_FALSE(transport_.by_call.contains(remove));
  EXPECT_FALSE(transport_.by_call.contains(read));
  EXPECT_FALSE(transport_.by_call.contains(refused));
  make_all_durable();
  EXPECT_EQ(parse(transport_.by_call[read])[1].status, StatusCode::kNotFound);
  EXPECT_EQ(parse(transport_.by_call[refused])[0].status, StatusCode::kExists);

  const uint64_t old = send(kRead, message({keyed(1, "b"), keyed(1, "a")}));
  EXPECT_TRUE(transport_.by_call.contains(old)) << "depends on nothing new";
}

TEST_F(MultiServiceHeldTest, AHeadThatIsNotReadyLeavesTheRest) {
  // Fills the head; the next one is not open, so the log answers RETRY.
  std::vector<std::string> operations;
  for (int i = 0; i < 3; ++i) operations.push_back(written(1, "k", std::string(1'000'000, 'v')));
  size_t done = 0;
  uint64_t id = 0;
  for (int i = 0; i < 6 && (id == 0 || !transport_.by_call.contains(id)); ++i) {
    id = send(kWrite, message(operations));
    finish();
    replies_.on_turn();
  }
  make_all_durable();
  bool stopped = false;
  for (const auto& [call, reply] : transport_.by_call) {
    if (reply.status == StatusCode::kRetry) {
      stopped = true;
      EXPECT_GT(load<wire::ErrorBody>(reply.body.data()).retry_after_us, 0u);
      continue;
    }
    const auto header = load<wire::MultiReply>(reply.body.data());
    done += header.count;
    EXPECT_EQ(header.count < 3, header.retry_after_us > 0);
    stopped = stopped || header.count < 3;
  }
  EXPECT_TRUE(stopped);
  EXPECT_GE(done, 7u);
}

/// A change that finds no memory waits as long as cleaning may free some.
TEST_F(MultiServiceTest, MemoryFullIsRetriedWhileCleaningHelps) {
  const std::string value(1 << 20, 'v');
  StatusCode status = StatusCode::kOk;
  for (int i = 0; i < 100 && status == StatusCode::kOk; ++i) {
    uint64_t version = 0;
    log::LogPosition depends_on;
    status = store_.write(1, "fill" + std::to_string(i), value, {}, version, depends_on);
    parts_.replicator.finish_all();
  }
  ASSERT_EQ(status, StatusCode::kOutOfMemory);
  const auto count = [&](const char* answer) {
    return metrics_.counter("ramcloud_memory_full_total", "", {{"answer", answer}}).value();
  };
  const auto full = call(kWrite, message({written(1, "k", value)}));
  ASSERT_EQ(full.size(), 1u);
  EXPECT_EQ(full[0].status, StatusCode::kOutOfMemory);
  EXPECT_EQ(count("out_of_memory"), 1u);

  store_.log().set_cleaning_helps(true, 0);
  const uint64_t id = send(kWrite, message({written(1, "k", value)}));
  finish();
  const RecordedReplies::Reply& reply = transport_.by_call.at(id);
  EXPECT_EQ(reply.status, StatusCode::kRetry);
  EXPECT_EQ(load<wire::ErrorBody>(reply.body.data()).retry_after_us, MemoryFull::kRetryAfterUs);
  EXPECT_EQ(count("retry"), 1u);
  EXPECT_EQ(count("out_of_memory"), 1u);
  const auto deleted = call(kDelete, message({keyed(1, "fill0")}));
  ASSERT_EQ(deleted.size(), 1u);
  EXPECT_EQ(deleted[0].status, StatusCode::kOk) << "deletes have memory of their own";
}

TEST(MultiServiceBeforeAttach, AnswersRetry) {
  SimScheduler sim(1);
  SimNode& node = sim.add_node("m");
  RecordedReplies transport;
  MetricsRegistry metrics;
  ServiceRegistry registry(transport);
  HeldReplies replies(node.reactor(), transport, metrics);
  MultiService service(registry, node.reactor(), replies, metrics);
  wire::MessageHeader header{};
  header.opcode = static_cast<uint16_t>(kRead);
  const wire::ReadRequest request{1, {}, 1, {}};
  registry.on_request(
      {}, header,
      std::string(bytes_of(wire::MultiRequest{1, 0})) + std::string(bytes_of(request)) + "k");
  EXPECT_EQ(transport.by_call[0].status, StatusCode::kRetry);
}

}  // namespace
}  // namespace ramcloud::master
