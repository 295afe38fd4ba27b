// A server with several reactors. The test plays its one backup, its coordinator and its clients.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sim/sim_scheduler.h"
#include "server/server_reactor.h"
#include "transport/sim/sim_transport.h"
#include "wire/replica_messages.h"

namespace ramcloud::server::testing {

inline constexpr wire::Uuid kCluster{1, 2, 3};
inline constexpr uint64_t kMaster = 1;
inline constexpr uint64_t kBackup = 2;

/// A transport on the simulated network that keeps replies for the test, which creates the requests
/// itself.
class KeptReplies final : public Transport {
 public:
  explicit KeptReplies(Transport& network) : network_(network) {}
  Result<std::shared_ptr<Session>> connect(const Locator& locator,
                                           const PeerIdentity& expected) override {
    return network_.connect(locator, expected);
  }
  Result<HostPort> listen(const HostPort& address, Side side, RequestHandler& handler) override {
    return network_.listen(address, side, handler);
  }
  void set_identity(const PeerIdentity& self) override { network_.set_identity(self); }
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice>) override {
    EXPECT_TRUE(by_call.emplace(handle.call_id, status).second) << "answered twice";
  }
  std::map<uint64_t, StatusCode> by_call;

 private:
  Transport& network_;
};

/// A backup that accepts everything, and answers when the test says so.
class Backup {
 public:
  Backup(SimScheduler& scheduler, SimNetwork& network)
      : node(scheduler.add_node("backup")), transport(network.make_transport(node)) {
    transport->set_identity({kCluster, kBackup});
    registry.add(wire::Opcode::kReplicaOpen, &call_member<&Backup::open, Backup>, this);
    registry.add(wire::Opcode::kReplicaWrite, &call_member<&Backup::write, Backup>, this);
    registry.add(wire::Opcode::kRenewLease, &call_member<&Backup::renew, Backup>, this);
    EXPECT_TRUE(transport->listen({"backup", 1}, Side::kInside, registry).has_value());
  }
  void open(const Request& request) {
    acknowledge(request.reply, load<wire::ReplicaOpenRequest>(request.body.data()).length);
  }
  void write(const Request& request) {
    const auto asked = load<wire::ReplicaWriteRequest>(request.body.data());
    ++writes;
    if (holds) {
      unanswered.emplace_back(request.reply, asked.offset + asked.length);
    } else {
      acknowledge(request.reply, asked.offset + asked.length);
    }
  }
  void renew(const Request& request) { reply_message(*transport, request.reply, wire::Empty{}); }
  /// Acknowledges the writes that it held, and stops holding.
  void release() {
    holds = false;
    for (const auto& [handle, length] : unanswered) acknowledge(handle, length);
    unanswered.clear();
  }
  void acknowledge(const ReplyHandle& handle, uint32_t held) {
    const wire::ReplicaReply body{held, 0};
    const Slice slice(bytes_of(body));
    transport->reply(handle, StatusCode::kOk, {&slice, 1});
  }
  SimNode& node;
  std::unique_ptr<SimTransport> transport;
  ServiceRegistry registry{*transport};
  int writes = 0;
  bool holds = false;  // acknowledges no write, but renews leases
  std::vector<std::pair<ReplyHandle, uint32_t>> unanswered;
};

/// One reactor of the server under test.
struct One {
  One(SimScheduler& scheduler, SimNetwork& network, Epochs& epochs, size_t index)
      : node(scheduler.add_node("server-" + std::to_string(index))),
        sim(network.make_transport(node)),
        transport(*sim),
        reactor(node.reactor(), transport, metrics, epochs, index) {
    reactor.rpc().set_cluster_uuid(kCluster);
  }
  SimNode& node;
  std::unique_ptr<SimTransport> sim;
  KeptReplies transport;
  MetricsRegistry metrics;
  ServerReactor reactor;
};

/// A server whose writes go to one backup; the parameter is how many reactors it has.
class ReactorsTest : public ::testing::TestWithParam<size_t> {
 protected:
  ReactorsTest() {
    coordinator_->set_identity({kCluster, 0});
    coordinator_registry_.add(wire::Opcode::kReportServer, &on_report, this);
    coordinator_registry_.add(wire::Opcode::kStopServing, &on_stop, this);
    EXPECT_TRUE(
        coordinator_->listen({"coordinator", 1}, Side::kInside, coordinator_registry_).has_value());
    for (size_t i = 0; i < GetParam(); ++i) {
      all_.push_back(std::make_unique<One>(scheduler_, network_, epochs_, i));
      if (i > 0) all_[i]->reactor.forward_to(first(), forwarded_);
    }
    wire::ServerList list;
    list.term = list.version = 1;
    list.servers.resize(2);
    list.servers[0].server_id = kMaster;
    list.servers[0].locator = "sim:host=server-0,port=1";
    list.servers[1].server_id = kBackup;
    list.servers[1].locator = "sim:host=backup,port=1";
    EXPECT_TRUE(servers_.apply(list).ok());
    const std::vector<Locator> coordinators = {{"sim", {"coordinator", 1}}};
    enlistment_ =
        std::make_unique<Enlistment>(first().rpc(), servers_, coordinators, [](const Status&) {});
    peers_ = std::make_unique<PeerPings>(
        first().rpc(), first().registry(), servers_, coordinators, all_[0]->metrics,
        PeerPings::Options{.interval = 60s});  // no pings: reports come from writes only
    make_master();
    EXPECT_TRUE(scheduler_.run_until([this] { return master_->log().takes_data(); }, 10s));
    connect();
  }
  /// In the order in which a server ends: held replies point into the log.
  ~ReactorsTest() override {
    for (const auto& one : all_) one->reactor.plane().replies().drop_all();
  }
  void make_master() {
    std::vector<Master::LaneOf> lanes;
    for (const auto& one : all_) {
      if (all_.size() > 1) lanes.push_back({&one->reactor.rpc(), &one->reactor.replica_messages()});
    }
    Master::Options options;
    options.log.cluster_uuid = kCluster;
    options.log.master_id = kMaster;
    options.replication.replicas = 1;
    options.replication.messages = &first().replica_messages();
    options.on_progress = [this] {
      for (const auto& one : all_) one->reactor.on_log_progress();
    };
    master_ = std::make_unique<Master>(first().rpc(), servers_, epochs_, arena_,
                                       store::HashTable::Memory(1 << 10), lanes, options);
    for (const auto& one : all_) one->reactor.serve(*master_);
    first().make_first(*master_, nullptr, *enlistment_, *peers_);
    EXPECT_TRUE(master_->store().take_tablet(1, 0, ~uint64_t{0}).ok());
  }
  /// Connects all reactors: without a session a reactor leaves sending to the first one.
  void connect() {
    for (const auto& one : all_) {
      const uint64_t call = write(*one, "connects");
      EXPECT_TRUE(scheduler_.run_until([&] { return one->transport.by_call.contains(call); }, 10s));
      scheduler_.run_for(10ms);
      one->transport.by_call.clear();
    }
  }
  static void on_report(void* object, const Request& request) {
    auto& self = *static_cast<ReactorsTest*>(object);
    wire::ReportServerRequest report;
    EXPECT_TRUE(request.decode(report));
    self.reported_.push_back(report.server_id);
    reply_message(*self.coordinator_, request.reply, wire::Empty{});
  }
  static void on_stop(void* object, const Request& request) {
    auto& self = *static_cast<ReactorsTest*>(object);
    ++self.stopped_;
    reply_message(*self.coordinator_, request.reply, wire::Empty{});
  }
  ServerReactor& first() { return all_.front()->reactor; }
  One& last() { return *all_.back(); }

  /// Delivers a request to a reactor, in one of its turns.
  uint64_t send(One& to, wire::Opcode opcode, std::string body) {
    const uint64_t call = ++last_call_;
    to.node.reactor().post([&to, opcode, call, body = std::move(body)] {
      wire::MessageHeader header{};
      header.opcode = static_cast<uint16_t>(opcode);
      ReplyHandle handle;
      handle.call_id = call;
      handle.opcode = header.opcode;
      to.reactor.registry().on_request(handle, header, body);
    });
    return call;
  }
  uint64_t write(One& to, const std::string& key) {
    const wire::WriteRequest fixed{1, {}, 5, static_cast<uint16_t>(key.size()), 0};
    return send(to, wire::Opcode::kWrite, std::string(bytes_of(fixed)) + key + "value");
  }
  uint64_t read(One& to, const std::string& key) {
    const wire::ReadRequest fixed{1, {}, static_cast<uint16_t>(key.size()), {}};
    return send(to, wire::Opcode::kRead, std::string(bytes_of(fixed)) + key);
  }
  uint64_t remove(One& to, const std::string& key) {
    const wire::DeleteRequest fixed{1, {}, static_cast<uint16_t>(key.size()), {}};
    return send(to, wire::Opcode::kDelete, std::string(bytes_of(fixed)) + key);
  }
  /// Runs until something that was appended after now is durable.
  void run_until_durable() {
    const log::LogPosition before = master_->log().durable();
    ASSERT_TRUE(scheduler_.run_until([&] { return master_->log().durable() > before; }, 10s));
  }

  SimScheduler scheduler_{1};
  SimNetwork network_{scheduler_};
  SimNode& coordinator_node_ = scheduler_.add_node("coordinator");
  std::unique_ptr<SimTransport> coordinator_ = network_.make_transport(coordinator_node_);
  ServiceRegistry coordinator_registry_{*coordinator_};
  std::vector<uint64_t> reported_;
  int stopped_ = 0;  // number of STOP_SERVING requests
  std::unique_ptr<Backup> backup_ = std::make_unique<Backup>(scheduler_, network_);
  Epochs epochs_;
  std::atomic<uint64_t> forwarded_{0};
  std::vector<std::unique_ptr<One>> all_;
  ServerList servers_;
  std::unique_ptr<Enlistment> enlistment_;
  std::unique_ptr<PeerPings> peers_;
  log::Arena arena_{uint64_t{6} * log::kSegmentBytes, {.try_huge_pages = false, .prefault = false}};
  std::unique_ptr<Master> master_;
  uint64_t last_call_ = 0;
};

}  // namespace ramcloud::server::testing
