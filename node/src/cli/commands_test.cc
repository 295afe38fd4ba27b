// The object commands and the public API, against a scripted cluster that runs on a thread of its
// own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <sstream>

#include "cli/session.h"
#include "client/fake_cluster.h"
#include "ramcloud/ramcloud.h"
#include "runtime/thread.h"

namespace ramcloud::cli {
namespace {

using testing::HasSubstr;

class CommandsTest : public testing::Test {
 protected:
  struct Outcome {
    int code;
    std::string out, err;
  };

  void SetUp() override {
    std::promise<std::pair<std::string, Reactor*>> started;
    auto future = started.get_future();
    thread_ = Thread("fake-cluster", [&started] {
      FakeWorld world;
      FakeStore store;
      FakeNode server(
          world, 1, [&](FakeNode& node, const FakeNode::Call& call) { store.answer(node, call); });
      const wire::TableInfo table = table_over({{1, server.locator()}});
      FakeNode coordinator(world, 0, [&](FakeNode& node, const FakeNode::Call& call) {
        answer_as_coordinator(node, call, table);
      });
      started.set_value({coordinator.locator().address.to_string(), &world.reactor});
      world.reactor.run();
    });
    std::tie(cluster_, reactor_) = future.get();
  }
  void TearDown() override {
    reactor_->stop();
    thread_.join();
  }

  Outcome run(std::vector<const char*> arguments, const std::string& input = {}) {
    arguments.insert(arguments.begin(), {"ramcloud", "--cluster", cluster_.c_str()});
    std::istringstream in(input);
    std::ostringstream out, err;
    Session session(in, out, err);
    const int code = run_cli(static_cast<int>(arguments.size()), arguments.data(), session);
    return {code, out.str(), err.str()};
  }

  std::string cluster_;
  Reactor* reactor_ = nullptr;
  Thread thread_;
};

TEST_F(CommandsTest, PutGetDel) {
  EXPECT_EQ(run({"put", "things", "k", "[a,b]"}).out, "version 1\n");
  EXPECT_EQ(run({"get", "things", "k"}).out, "[a,b]\n");
  EXPECT_EQ(run({"put", "things", "k", "-"}, std::string("\0\xff\n", 3)).code, 0);
  EXPECT_EQ(run({"get", "things", "k", "--raw"}).out, std::string("\0\xff\n", 3));
  EXPECT_EQ(run({"get", "things", "aw==", "--key-b64", "-o", "json"}).out,
            "{\"key\":\"k\",\"value_b64\":\"AP8K\",\"version\":2}\n");
  EXPECT_EQ(run({"put", "things", "e", ""}).code, 0);
  EXPECT_EQ(run({"get", "things", "e"}).out, "\n");
  EXPECT_EQ(run({"del", "things", "k", "-o", "json"}).out, "{\"version\":2}\n");
  EXPECT_EQ(run({"del", "things", "k"}).code, kExitNotFound);
  EXPECT_EQ(run({"del", "things", "k", "--ignore-missing"}).code, 0);
  const Outcome gone = run({"get", "things", "k"});
  EXPECT_EQ(gone.code, kExitNotFound);
  EXPECT_EQ(gone.out, "");
  EXPECT_THAT(gone.err, HasSubstr("table 'things', key 'k': NOT_FOUND"));
}

TEST_F(CommandsTest, WhatIsImportedIsExported) {
  std::string lines;
  for (int i = 100; i < 400; ++i) {
    lines += "{\"key\":\"key" + std::to_string(i) + "\",\"value\":\"value " + std::to_string(i) +
             "\"}\n";
  }
  lines += "{\"key_b64\":\"/w==\",\"value_b64\":\"/v8=\"}\n";
  const Outcome imported = run({"import", "things", "-"}, lines);
  EXPECT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("imported 301 objects"));
  EXPECT_EQ(run({"export", "things", "--sort"}).out, lines);
  EXPECT_EQ(run({"scan", "things", "--count"}).out, "301\n");
  EXPECT_EQ(run({"scan", "things", "--limit", "2"}).out, "key100\tvalue 100\nkey101\tvalue 101\n");
}

TEST_F(CommandsTest, OfTwoLinesWithOneKeyTheLaterWins) {
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    lines += "{\"key\":\"k\",\"value\":\"" + std::to_string(i) + "\"}\n";
  }
  ASSERT_EQ(run({"import", "things", "-"}, lines).code, 0);
  EXPECT_EQ(run({"get", "things", "k"}).out, "199\n");
}

TEST_F(CommandsTest, ABadLineIsNamed) {
  const Outcome outcome =
      run({"import", "things", "-"}, "{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"c\"}\n");
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              HasSubstr("standard input, line 2: INVALID_ARGUMENT: there is no value"));
}

TEST_F(CommandsTest, Benchmarks) {
  for (const char* workload : {"read", "write"}) {
    const Outcome outcome = run({"bench", workload, "--ops", "200", "--keys", "20", "--clients",
                                 "3", "--warm-up", "1ms", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("\"operations\":200,"));
  }
  EXPECT_THAT(run({"bench", "read", "--duration", "20ms", "--warm-up", "0ms", "--keys", "5"}).out,
              HasSubstr("p99.9"));
}

TEST_F(CommandsTest, TheStatusCommandsSayWhenThereIsNoAdminAddress) {
  EXPECT_THAT(run({"status"}).err, HasSubstr("no admin address"));
  EXPECT_THAT(run({"tablets", "things"}).out, HasSubstr("0000000000000000  ffffffffffffffff  1"));
}

TEST_F(CommandsTest, ThePublicApi) {
  auto client = Client::connect(cluster_);
  ASSERT_TRUE(client.has_value());
  EXPECT_EQ(Client::connect("nowhere").error().code, ErrorCode::kInvalidArgument);
  const uint64_t table = client->create_table("things")->id;
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    ASSERT_TRUE(client->write(table, key, std::string(key) + "!").has_value());
  }
  EXPECT_EQ(client->read(table, "c")->value, "c!");
  EXPECT_EQ(client->read(table, "x").error().name(), "NOT_FOUND");
  EXPECT_EQ(client->write(table, "a", "b", {.only_version = 1, .only_newer_than = 2}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(client->remove(table, "e").value(), 5u);
  std::string seen;
  Scan scan = client->scan(table);
  for (;;) {
    auto object = scan.next();
    ASSERT_TRUE(object.has_value()) << object.error().to_string();
    if (*object == nullptr) break;
    seen += (*object)->value;
  }
  EXPECT_EQ(seen, "a!b!c!d!");
  EXPECT_EQ(client->list_tables()->size(), 1u);
  EXPECT_TRUE(client->drop_table("things").has_value());
}

}  // namespace
}  // namespace ramcloud::cli
