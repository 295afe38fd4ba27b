// A coordinator with fake servers on a fake network, all on one reactor and virtual time, with
// injected faults: for tests of the coordinator. Whole clusters are simulated in node/sim.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/fake_recovery.h"
#include "coordinator/metadata/invariants.h"
#include "coordinator/metadata/sim_metadata.h"
#include "rpc/peer_probe.h"
#include "runtime/manual_source.h"
#include "wire/volume_messages.h"

namespace ramcloud::testing {

class FakeTransport;

/// Carries requests and replies with a small random delay between transports, found by port.
class FakeNetwork {
 public:
  explicit FakeNetwork(Reactor& r) : reactor(r), scope(r) {}
  Reactor& reactor;
  std::map<uint16_t, FakeTransport*> listeners;
  std::set<uint16_t> silent;                    // ports whose incoming and outgoing requests are
                                                // lost
  std::set<std::pair<uint16_t, uint16_t>> cut;  // from, to: requests in this direction are lost
  std::map<wire::Opcode, int> lose_replies;     // the number of next replies that are lost
  std::map<uint16_t, uint16_t> versions;        // of the protocol, of ports with an earlier one
  TaskScope scope;
};

class FakeTransport final : public Transport {
 public:
  explicit FakeTransport(FakeNetwork& network) : network_(network) {}
  ~FakeTransport() override;
  Result<std::shared_ptr<Session>> connect(const Locator& locator,
                                           const PeerIdentity& expected) override;
  Result<HostPort> listen(const HostPort& address, Side side, RequestHandler& handler) override;
  void set_identity(const PeerIdentity& self) override { self_ = self; }
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body) override;

 private:
  friend class FakeSession;
  struct Asked {
    std::weak_ptr<class FakeSession> session;
    uint64_t call_id;
  };
  FakeNetwork& network_;
  PeerIdentity self_;
  RequestHandler* handler_ = nullptr;
  std::vector<uint16_t> ports_;
  std::map<uint16_t, Side> sides_;
  std::map<uint64_t, Asked> asked_;
  uint64_t last_asked_ = 0;
};

/// A storage server as the coordinator sees it.
class FakeServer {
 public:
  FakeServer(FakeNetwork& network, uint16_t port);
  /// One try; with `lose_reply` the coordinator handles it but the reply is lost.
  Task<Result<wire::EnlistReply>> enlist(Duration timeout);
  /// Restarts the process at its address, with its volume.
  void start_again();
  /// Tells the coordinator that a peer does not answer.
  Task<Result<wire::Empty>> report(uint64_t server_id);
  uint16_t port() const { return port_; }
  Locator locator() const { return {"tcp", {"10.0.0.1", port_}}; }

  wire::EnlistRequest request;  // its enlist request
  uint64_t id = 0;
  wire::ServerList list;
  std::map<uint64_t, std::map<uint64_t, uint64_t>> tablets;  // table -> start hash -> end hash
  /// Creation positions, by table and start hash.
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> positions;
  uint64_t log_head = 0;
  struct Order {
    uint64_t revision = 0;
    bool drop = false;
    std::string name;
  };
  std::map<uint64_t, Order> orders;  // the last of each table
  uint32_t epoch = 0;                // of its replication, and
  uint64_t lowest_open_segment = 0;
  wire::ServerStats stats;
  int refuse_takes = 0;     // the number of next requests that are answered with an error
  uint64_t heard_term = 0;  // orders and probes with a lower term are refused
  /// Tells the term only in the message's text, and does not support kProbePeer and kRestate.
  bool former_build = false;
  bool keeps_to_itself = false;  // does not answer kRestate
  int term_refusals = 0;
  int outdated_orders = 0;  // orders with a lower revision than the last
  int restated = 0;
  bool late = false;        // its timers are late, so its probes of peers are void
  int indirect_probes = 0;  // probes that it was asked for
  // What its log needs of other servers' volumes, and its answer about that.
  wire::ReplicasOn need;
  std::optional<uint64_t> list_it_judges_by;  // none: its own list
  Duration think{};
  std::vector<uint64_t> asked_about;  // the masters in the last question
  wire::ResizeLogReply memory;        // its answer about its log's memory
  size_t pushed_entries = 0;          // entries of pushed server lists
  std::string violation;              // a rule that the coordinator broke

 private:
  void on_list(const Request& r);
  void on_take(const Request& r);
  void on_drop(const Request& r);
  void on_stats(const Request& r);
  void on_restate(const Request& r);
  void refuse_term(const Request& r, uint64_t term);
  void on_ping(const Request& r);
  void on_probe_peer(const Request& r);
  Task<void> probe_peer(ReplyHandle handle, wire::ProbePeerRequest asked);
  void on_replicas_on(const Request& r);
  void on_resize_log(const Request& r);
  Task<void> say_need(ReplyHandle handle);
  uint16_t port_;
  FakeTransport transport_;
  ServiceRegistry registry_;
  RpcClient rpc_;
  TaskScope scope_;

 public:
  FakeRecovery recovery;
};

class FakeCluster {
 public:
  static constexpr uint16_t kCoordinatorPort = 11100;
  static constexpr uint16_t kOutsidePort = 11103;
  explicit FakeCluster(uint64_t seed = 1, SimMetadata::Options store_options = {});
  ~FakeCluster();

  /// Starts a coordinator (false: does not wait until it is ready).
  Status start_coordinator();
  void stop_coordinator();
  /// The metadata is lost, and a leader starts on an import of these records.
  Status import_records(MetadataStore::Records exported);
  /// Creates a server, calls `prepare` with it, and enlists it.
  FakeServer& add_server();
  std::function<void(FakeServer&)> prepare;
  void kill_server(FakeServer& server);

  /// Runs turns until nothing is left to do at the present time, then advances time to the next
  /// event. Checks the invariants after every turn.
  bool run_until(const std::function<bool()>& done, Duration limit = 60s);
  void run_for(Duration d) {
    run_until([] { return false; }, d);
  }
  template <typename T>
  T wait_for(Task<T> task) {
    task.resume();
    if (!run_until([&] { return task.done(); }, 120s)) throw std::runtime_error("task hangs");
    return task.take();
  }
  template <typename Reply, typename Message>
  Result<Reply> call(wire::Opcode opcode, Message message, uint16_t port = kCoordinatorPort,
                     Duration timeout = 30s) {
    return wait_for(client->call<Reply>(Locator{"tcp", {"10.0.0.1", port}}, 0, opcode, message,
                                        reactor.now() + timeout));
  }
  Result<wire::TableInfo> create(const std::string& name, uint32_t span) {
    return call<wire::TableInfo>(wire::Opcode::kCreateTable, wire::CreateTableRequest{name, span});
  }
  Result<wire::Empty> drop(const std::string& name) {
    return call<wire::Empty>(wire::Opcode::kDropTable, wire::DropTableRequest{name});
  }

  VirtualClock clock;
  ManualSource source;
  Reactor reactor;
  FakeNetwork network;
  MetricsRegistry metrics;
  SimMetadataState metadata;
  SimMetadata::Options store_options;
  Coordinator::Options options;
  Invariants invariants;
  std::vector<std::unique_ptr<FakeServer>> servers;
  std::unique_ptr<SimMetadata> store;
  std::unique_ptr<FakeTransport> transport;
  std::unique_ptr<RpcClient> rpc;
  std::unique_ptr<ServiceRegistry> registry;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<FakeTransport> client_transport;
  std::unique_ptr<RpcClient> client;
  std::string violation;
  size_t turns_between_checks = 1;  // turns between checks of the invariants, which look at
                                    // everything
  size_t turns = 0;
};

}  // namespace ramcloud::testing
