// Servers with several reactors, on real threads and loopback connections, used by many clients at
// the same time. Not simulated, because the test looks for races; it also runs under the thread
// sanitizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "backup/replica_reader.h"
#include "base/logging.h"
#include "base/testing/sanitizer.h"
#include "base/testing/temporary_folder.h"
#include "client/blocking_client.h"
#include "coordinator/core/coordinator_node.h"
#include "coordinator/metadata/sim_metadata.h"
#include "daemon/daemon_runtime.h"
#include "runtime/posix_disk.h"
#include "server/forwarder.h"
#include "server/server_node.h"
#include "sim/workload.h"

namespace ramcloud::sim {
namespace {

using daemon::DaemonRuntime;

constexpr uint32_t kReactors = 4;
constexpr Duration kPoll = 0us;  // there are many more threads than cores

constexpr uint32_t kFewer = testing::kSanitized ? 10 : 1;

/// A coordinator on a thread of its own; its metadata is in memory.
class Leader {
 public:
  Leader() : rpc_(runtime_.reactor(), runtime_.transport()) {
    Coordinator::Options options;
    options.cluster_name = "threads";
    options.version = "test";
    node_ = std::make_unique<CoordinatorNode>(
        rpc_, runtime_.transport(), metadata_, runtime_.metrics(), options,
        [](const Status& why) { ADD_FAILURE() << why.to_string(); });
    const auto bound = runtime_.transport().listen({"127.0.0.1", 0}, Side::kInside, *node_);
    EXPECT_TRUE(bound.has_value());
    locator_ = {"tcp", *bound};
    node_->set_addresses({locator_.to_string(), "", "", ""});
    node_->start();
    runtime_.start("coordinator");
  }
  ~Leader() {
    std::promise<void> done;
    runtime_.reactor().post([&] { node_->shut_down([&] { done.set_value(); }); });
    done.get_future().wait();
    runtime_.stop();
  }
  const Locator& locator() const { return locator_; }

 private:
  DaemonRuntime runtime_{kPoll, TcpOptions{}};
  RpcClient rpc_;
  SimMetadataState state_;
  SimMetadata metadata_{runtime_.reactor(), state_, {.lease = 600s}};
  Locator locator_;
  std::unique_ptr<CoordinatorNode> node_;
};

class Server {
 public:
  Server(const Locator& coordinator, const std::string& dir, uint32_t replicas) : disk_(reactor()) {
    std::vector<TcpTransport*> others;
    std::vector<server::ReactorResources> more;
    for (size_t i = 1; i < kReactors; ++i) {
      auto& lane = runtime_.lane(i);
      others.push_back(&lane.transport);
      more.push_back({lane.reactor, lane.transport, lane.metrics});
    }
    runtime_.transport().spread_over(others, &server::any_reactor_serves);
    const auto bound = runtime_.transport().listen({"127.0.0.1", 0}, Side::kInside, forward_);
    EXPECT_TRUE(bound.has_value());
    locator_ = {"tcp", *bound};
    server::ServerNodeOptions options;
    options.coordinators = {coordinator};
    options.locator = locator_;
    options.name = options.failure_domain = locator_.address.to_string();
    options.version = "test";
    options.backup_dir = dir;
    options.log_bytes = 64u << 20;
    options.hash_table_bytes = 256u << 10;
    options.backup_bytes = 128u << 20;
    options.replicas = replicas;
    options.read_bytes_per_second = 100u << 20;
    options.prefault = false;
    node_ = std::make_unique<server::ServerNode>(
        reactor(), runtime_.transport(), disk_, runtime_.metrics(), options,
        [](const Status& why) { ADD_FAILURE() << why.to_string(); }, more);
    forward_.target = &node_->registry();
    for (size_t i = 1; i < kReactors; ++i) {
      runtime_.lane(i).transport.serve_handed_over(node_->registry(i));
    }
    EXPECT_EQ(node_->start().to_string(), "OK");
    runtime_.start("server");
  }
  ~Server() {
    std::promise<void> done;
    reactor().post([&] {
      node_->shut_down([&](const Status& status) {
        EXPECT_EQ(status.to_string(), "OK");
        done.set_value();
      });
    });
    done.get_future().wait();
    runtime_.stop();
    EXPECT_EQ(node_->check_invariants(), "");
    node_.reset();
  }
  bool ready() const { return node_->ready(); }
  Reactor& reactor(size_t i = 0) { return runtime_.lane(i).reactor; }
  DaemonRuntime& runtime() { return runtime_; }
  const Locator& locator() const { return locator_; }
  uint64_t id() const { return node_->server_id(); }

 private:
  struct Forward final : RequestHandler {
    RequestHandler* target = nullptr;
    void on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                    ByteView body) override {
      target->on_request(handle, header, body);
    }
  };
  DaemonRuntime runtime_{kPoll, TcpOptions{}, kReactors};
  PosixDisk disk_;
  Forward forward_;
  Locator locator_;
  std::unique_ptr<server::ServerNode> node_;
};

class ReactorsTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  ReactorsTest() {
    set_log_level(LogLevel::kError);
    coordinator_ = std::make_unique<Leader>();
    for (uint32_t i = 0; i <= std::max(GetParam(), 1u); ++i) {
      servers_.push_back(std::make_unique<Server>(coordinator_->locator(),
                                                  folder_ / std::to_string(i), GetParam()));
    }
  }
  void SetUp() override {
    const auto ready = [&] {
      return std::ranges::all_of(servers_, [](const auto& s) { return s->ready(); });
    };
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!ready()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the servers did not enlist";
      std::this_thread::sleep_for(5ms);
    }
  }
  ~ReactorsTest() override {
    servers_.clear();
    coordinator_.reset();
  }
  std::unique_ptr<BlockingClient> client() {
    return std::make_unique<BlockingClient>(BlockingClient::Options{
        .coordinators = {coordinator_->locator()}, .timeout = 300s, .poll_for = kPoll});
  }

  /// A counter of all servers, by reactor.
  std::vector<uint64_t> counted(const char* name) {
    std::vector<uint64_t> sums(kReactors);
    for (auto& server : servers_) {
      for (size_t i = 0; i < kReactors; ++i) {
        auto& metrics = server->runtime().lane(i).metrics;
        sums[i] += metrics.counter(name, "", {{"reactor", std::to_string(i)}}).value();
      }
    }
    return sums;
  }

  const TemporaryFolder folder_;  // outlives the servers
  std::unique_ptr<Leader> coordinator_;
  std::vector<std::unique_ptr<Server>> servers_;
};

Task<bool> work_and_read_back(Worker& worker) {
  co_await worker.work();
  co_return co_await worker.read_back();
}

TEST_P(ReactorsTest, ManyClientsFindWhatTheModelSays) {
  auto first = client();
  const auto table = first->run(first->core().create_table("t", 2));
  ASSERT_TRUE(table.has_value()) << table.error().to_string();
  constexpr uint32_t kClients = 8;
  std::vector<std::map<std::string, std::string>> contents(kClients);
  std::vector<std::string> wrong(kClients);
  std::vector<std::thread> threads;
  for (uint32_t n = 0; n < kClients; ++n) {
    threads.emplace_back([&, n] {
      auto mine = client();
      Worker::Options options;
      options.seed = n + 1;
      options.keys = 100;
      options.operations = 4000 / kFewer;
      options.most_at_once = 100;
      options.prefix = "c" + std::to_string(n) + "-";
      Worker worker(mine->core(), table->table_id, options);
      mine->run(work_and_read_back(worker));
      wrong[n] = worker.wrong();
      contents[n] = worker.contents();
      EXPECT_EQ(worker.counts().failed + worker.counts().indeterminate, 0u);
    });
  }
  for (auto& thread : threads) thread.join();
  std::map<std::string, std::string> expected;
  for (auto& part : contents) expected.merge(part);
  for (const std::string& complaint : wrong) EXPECT_EQ(complaint, "");
  const auto scanned = first->run(scan_table(first->core(), table->table_id));
  ASSERT_TRUE(scanned.has_value()) << scanned.error().to_string();
  EXPECT_TRUE(*scanned == expected);
}

/// Values that increments gave, in the order in which one client got them.
std::vector<int64_t> count_up(BlockingClient& client, uint64_t table, uint32_t times) {
  std::vector<int64_t> seen;
  for (uint32_t i = 0; i < times; ++i) {
    const auto sum =
        client.run(client.core().increment(table, "counter", wire::NumberType::kInt64, 1));
    EXPECT_TRUE(sum.has_value()) << sum.error().to_string();
    if (!sum) break;
    seen.push_back(static_cast<int64_t>(sum->bits));
  }
  return seen;
}

TEST_P(ReactorsTest, ACounterCountsEveryIncrementOnce) {
  auto first = client();
  const auto table = first->run(first->core().create_table("t", 1));
  ASSERT_TRUE(table.has_value()) << table.error().to_string();
  constexpr uint32_t kClients = 8;
  constexpr uint32_t kTimes = 1500 / kFewer;
  std::vector<std::vector<int64_t>> seen(kClients);
  std::vector<std::thread> threads;
  for (uint32_t n = 0; n < kClients; ++n) {
    threads.emplace_back([&, n] {
      auto mine = client();
      seen[n] = count_up(*mine, table->table_id, kTimes);
    });
  }
  for (auto& thread : threads) thread.join();
  // Linearizable: each sum was given to exactly one client, and every client saw it rise.
  std::set<int64_t> all;
  for (const auto& one : seen) {
    EXPECT_TRUE(std::ranges::is_sorted(one, std::less_equal{}) || one.empty());
    all.insert(one.begin(), one.end());
  }
  EXPECT_EQ(all.size(), size_t{kClients} * kTimes);
  EXPECT_EQ(*all.begin(), 1);
  EXPECT_EQ(*all.rbegin(), int64_t{kClients} * kTimes);
  // Clients were spread: reactors without any would prove nothing.
  uint64_t without = 0;
  for (auto& server : servers_) {
    for (size_t i = 0; i < kReactors; ++i) {
      auto& requests = server->runtime().lane(i).metrics.counter("ramcloud_operations_total", "",
                                                                 {{"op", "increment"}});
      without += requests.value() == 0;
    }
  }
  EXPECT_LE(without, (servers_.size() - 1) * kReactors) << "one server has the table";
}

/// One client's writes to keys that all clients write: each version that it got, with the value.
using Acknowledged = std::map<std::string, std::vector<std::pair<uint64_t, std::string>>>;

Acknowledged write_round_robin(BlockingClient& client, uint64_t table, uint32_t n, uint32_t times) {
  Acknowledged seen;
  for (uint32_t i = 0; i < times; ++i) {
    const std::string key = "k" + std::to_string(i % 20);
    const std::string value = std::to_string(n) + ":" + std::to_string(i);
    const auto version = client.run(client.core().write(table, key, value));
    EXPECT_TRUE(version.has_value()) << version.error().to_string();
    if (!version) break;
    seen[key].emplace_back(*version, value);
  }
  return seen;
}

TEST_P(ReactorsTest, WhatAnyReactorAcknowledgedIsOnBackups) {
  auto first = client();
  const auto table = first->run(first->core().create_table("t", 1));
  ASSERT_TRUE(table.has_value()) << table.error().to_string();
  constexpr uint32_t kClients = 8;
  constexpr uint32_t kTimes = 2000 / kFewer;
  std::vector<Acknowledged> seen(kClients);
  std::vector<std::thread> threads;
  for (uint32_t n = 0; n < kClients; ++n) {
    threads.emplace_back([&, n] {
      auto mine = client();
      seen[n] = write_round_robin(*mine, table->table_id, n, kTimes);
    });
  }
  for (auto& thread : threads) thread.join();
  // Every version was given once, rising for each client; the object with the highest one must be
  // found.
  std::map<std::string, std::map<uint64_t, std::string>> versions;
  for (const auto& one : seen) {
    for (const auto& [key, written] : one) {
      EXPECT_TRUE(std::ranges::is_sorted(written)) << key;
      for (const auto& [version, value] : written) {
        EXPECT_TRUE(versions[key].emplace(version, value).second) << key << " twice " << version;
      }
    }
  }
  EXPECT_EQ(versions.size(), 20u);
  if (GetParam() == 0) return;
  const std::vector<uint64_t> messages = counted("ramcloud_replication_messages_total");
  const auto driving =
      std::count_if(messages.begin() + 1, messages.end(), [](uint64_t count) { return count > 0; });
  EXPECT_GE(driving, 2) << "reactors besides the first that sent";
  const std::vector<uint64_t> writes = counted("ramcloud_backup_writes_total");
  const auto taking =
      std::count_if(writes.begin() + 1, writes.end(), [](uint64_t count) { return count > 0; });
  EXPECT_GE(taking, 2) << "reactors besides the first that took writes of replicas";
  // The folders of all servers, when these have ended.
  std::vector<std::string> folders;
  for (size_t i = 0; i < servers_.size(); ++i) folders.push_back(folder_ / std::to_string(i));
  servers_.clear();
  std::map<std::string, std::string> found;
  const Status rebuilt = rebuild(folders, [&](const log::ReplayedObject& object) {
    if (object.table_id == table->table_id) {
      found[std::string(object.key)] = std::string(object.value);
    }
  });
  EXPECT_EQ(rebuilt.to_string(), "OK");
  for (const auto& [key, of_key] : versions) EXPECT_EQ(found[key], of_key.rbegin()->second) << key;
}

TEST_P(ReactorsTest, ADroppedTableIsReadByNobodyAfterwards) {
  auto first = client();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> dropped{0};  // rounds whose table was dropped
  std::atomic<uint64_t> table_id{0};
  std::atomic<uint64_t> round_of_table{0};
  std::atomic<uint64_t> good{0};
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&] {
      auto mine = client();
      while (!stop) {
        const uint64_t round = round_of_table.load();
        const uint64_t table = table_id.load();
        const bool gone = dropped.load() >= round;
        if (gone || round_of_table.load() != round) {
          std::this_thread::yield();
          continue;
        }
        const bool before = dropped.load() < round;
        const auto value = mine->run(mine->core().read(table, "key"));
        if (!before) EXPECT_FALSE(value.has_value());
        good += value.has_value();
      }
    });
  }
  auto late = client();
  for (uint64_t round = 1; round <= 5; ++round) {
    const auto table = first->run(first->core().create_table("t", 1));
    ASSERT_TRUE(table.has_value()) << table.error().to_string();
    ASSERT_TRUE(first->run(first->core().write(table->table_id, "key", "value")).has_value());
    ASSERT_TRUE(late->run(late->core().read(table->table_id, "key")).has_value());
    table_id = table->table_id;
    round_of_table = round;
    const uint64_t before = good;
    while (good < before + 20) std::this_thread::yield();
    ASSERT_EQ(first->run(first->core().drop_table("t")).to_string(), "OK");
    dropped = round;
    const auto value = late->run(late->core().read(table->table_id, "key"));
    EXPECT_FALSE(value.has_value()) << "whichever reactor it is at";
  }
  stop = true;
  for (auto& thread : threads) thread.join();
}

/// Blocks a reactor until it is destroyed.
class Hang {
 public:
  explicit Hang(Reactor& reactor) {
    reactor.post([hangs = hangs_, go = go_on_.get_future().share()] {
      hangs->set_value();
      go.wait();
    });
    hangs_->get_future().wait();
  }
  ~Hang() { go_on_.set_value(); }

 private:
  std::shared_ptr<std::promise<void>> hangs_ = std::make_shared<std::promise<void>>();
  std::promise<void> go_on_;
};

TEST_P(ReactorsTest, APingIsAnsweredOnlyWhenEveryReactorTurns) {
  DaemonRuntime own(kPoll, TcpOptions{});
  Server& server = *servers_.front();
  const auto call = [&](RpcClient& rpc, wire::Opcode opcode, std::string body, Duration timeout) {
    return run_task(own.reactor(), rpc.call(server.locator(), server.id(), opcode, std::move(body),
                                            own.clock().now() + timeout))
        .status.code();
  };
  // One connection stays on the first reactor; the other goes elsewhere with its first read, and
  // its pings are forwarded.
  RpcClient stays(own.reactor(), own.transport()), moves(own.reactor(), own.transport());
  const wire::ReadRequest read{.table_id = 77, .reject = {}, .key_length = 0, .reserved = {}};
  EXPECT_EQ(call(moves, wire::Opcode::kRead, std::string(bytes_of(read)), 60s),
            StatusCode::kUnknownTablet);
  EXPECT_EQ(call(moves, wire::Opcode(250), "", 60s), StatusCode::kUnsupported);
  for (RpcClient* rpc : {&stays, &moves}) {
    EXPECT_EQ(call(*rpc, wire::Opcode::kPing, "", 60s), StatusCode::kOk);
    for (size_t i = 0; i < kReactors; ++i) {
      {
        const Hang hang(server.reactor(i));
        EXPECT_EQ(call(*rpc, wire::Opcode::kPing, "", 50ms), StatusCode::kDeadlineExceeded)
            << "reactor " << i;
      }
      EXPECT_EQ(call(*rpc, wire::Opcode::kPing, "", 60s), StatusCode::kOk) << "reactor " << i;
    }
  }
}

/// While the first reactor hangs, the number of requests that wait for it is bounded, and so is the
/// time for which they count.
TEST_P(ReactorsTest, RequestsThatAreForwardedTakeALimitedAmountOfMemory) {
  DaemonRuntime own(kPoll, TcpOptions{});
  Server& server = *servers_.front();
  RpcClient moves(own.reactor(), own.transport());
  const auto call = [&](wire::Opcode opcode, std::string body) {
    return moves.call(server.locator(), server.id(), opcode, std::move(body),
                      own.clock().now() + 60s);
  };
  // The first connection that is handed over goes to another reactor.
  const wire::ReadRequest read{.table_id = 77, .reject = {}, .key_length = 0, .reserved = {}};
  EXPECT_EQ(
      run_task(own.reactor(), call(wire::Opcode::kRead, std::string(bytes_of(read)))).status.code(),
      StatusCode::kUnknownTablet);
  std::vector<StatusCode> codes;
  TaskScope scope(own.reactor());
  const auto ping = [](auto& to, auto& results) -> Task<void> {
    const RpcReply reply = co_await to(wire::Opcode::kPing, std::string(1u << 20, 'x'));
    results.push_back(reply.status.code());
  };
  constexpr size_t kMany = 24;
  {
    const Hang hang(server.reactor(0));
    for (size_t i = 0; i < kMany; ++i) scope.spawn(ping(call, codes));
    own.reactor().run_until([&] { return codes.size() == kMany - 15; });
    EXPECT_EQ(std::ranges::count(codes, StatusCode::kRetry), static_cast<long>(codes.size()));
  }
  own.reactor().run_until([&] { return codes.size() == kMany; });
  const auto served = std::ranges::count(codes, StatusCode::kOk);
  EXPECT_EQ(served, 15) << "16 MiB with what else a copy needs";
  // A tablet that was given back can be taken again.
  codes.clear();
  for (size_t i = 0; i < 15; ++i) scope.spawn(ping(call, codes));
  own.reactor().run_until([&] { return codes.size() == 15; });
  EXPECT_EQ(std::ranges::count(codes, StatusCode::kOk), 15);
}

INSTANTIATE_TEST_SUITE_P(Replicas, ReactorsTest, ::testing::Values(0u, 1u));

}  // namespace
}  // namespace ramcloud::sim
