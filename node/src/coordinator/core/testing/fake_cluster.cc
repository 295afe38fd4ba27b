#include "coordinator/core/testing/fake_cluster.h"

#include <algorithm>
#include <tuple>

#include "coordinator/metadata/metadata_export.h"

namespace ramcloud::testing {

class FakeSession final : public Session, public std::enable_shared_from_this<FakeSession> {
 public:
  FakeSession(FakeNetwork& network, uint16_t from, uint16_t port, PeerIdentity expected)
      : network_(network), from_(from), port_(port), expected_(expected) {}
  void send(ClientCall& call, wire::MessageHeader header, std::span<const Slice> body) override {
    header.call_id = add_call(call, 1);
    std::string bytes;
    for (const auto& slice : body) bytes.append(static_cast<const char*>(slice.data), slice.size);
    network_.scope.spawn(deliver(shared_from_this(), header, std::move(bytes)));
  }
  bool broken() const override { return broken_; }
  uint64_t peer_server_id() const override { return 0; }
  uint16_t version() const override {
    const auto former = network_.versions.find(port_);
    return former == network_.versions.end() ? wire::kVersionMax : former->second;
  }
  Absence absence() const override { return absence_; }
  void answer(wire::MessageHeader header, ByteView body) {
    if (ClientCall* call = take_call(header.call_id)) call->on_reply(header, body);
  }

 private:
  static Task<void> deliver(std::shared_ptr<FakeSession> self, wire::MessageHeader header,
                            std::string body) {
    FakeNetwork& network = self->network_;
    co_await network.reactor.sleep(Duration(10'000 + network.reactor.random().below(1'000'000)));
    if (network.silent.contains(self->port_) || network.silent.contains(self->from_)) co_return;
    if (network.cut.contains({self->from_, self->port_})) co_return;
    const auto found = network.listeners.find(self->port_);
    if (found == network.listeners.end()) {
      self->absence_ = Absence::kRefused;
      self->fail({StatusCode::kUnavailable, "connection refused"});
      co_return;
    }
    FakeTransport& peer = *found->second;
    if (self->expected_.server_id != 0 && self->expected_.server_id != peer.self_.server_id) {
      self->absence_ = Absence::kStranger;
      self->fail({StatusCode::kWrongServer, "another server"});
      co_return;
    }
    ReplyHandle handle;
    handle.call_id = ++peer.last_asked_;
    handle.opcode = header.opcode;
    handle.side = peer.sides_.at(self->port_);
    handle.version = self->version();
    peer.asked_[handle.call_id] = {self, header.call_id};
    peer.handler_->on_request(handle, header, body);
  }
  void fail(const Status& status) {
    broken_ = true;
    fail_calls(1, status, status);
  }
  FakeNetwork& network_;
  uint16_t from_, port_;
  PeerIdentity expected_;
  bool broken_ = false;
  Absence absence_ = Absence::kUnknown;
};

FakeTransport::~FakeTransport() {
  for (const uint16_t port : ports_) network_.listeners.erase(port);
}

Result<std::shared_ptr<Session>> FakeTransport::connect(const Locator& locator,
                                                        const PeerIdentity& expected) {
  return std::make_shared<FakeSession>(network_, ports_.empty() ? uint16_t{0} : ports_.front(),
                                       locator.address.port, expected);
}

Result<HostPort> FakeTransport::listen(const HostPort& address, Side side,
                                       RequestHandler& handler) {
  handler_ = &handler;
  ports_.push_back(address.port);
  sides_[address.port] = side;
  network_.listeners[address.port] = this;
  return address;
}

void FakeTransport::reply(const ReplyHandle& handle, StatusCode status,
                          std::span<const Slice> body) {
  const auto found = asked_.find(handle.call_id);
  if (found == asked_.end()) return;
  const auto carry = [](FakeNetwork& network, Asked asked, wire::MessageHeader header,
                        std::string bytes) -> Task<void> {
    co_await network.reactor.sleep(Duration(10'000 + network.reactor.random().below(1'000'000)));
    if (const auto session = asked.session.lock()) session->answer(header, bytes);
  };
  std::string bytes;
  for (const auto& slice : body) bytes.append(static_cast<const char*>(slice.data), slice.size);
  wire::MessageHeader header{};
  header.kind = wire::Kind::kReply;
  header.opcode = handle.opcode;
  header.status = static_cast<uint16_t>(status);
  header.call_id = found->second.call_id;
  header.body_length = static_cast<uint32_t>(bytes.size());
  Asked asked = found->second;
  asked_.erase(found);
  if (int& lose = network_.lose_replies[static_cast<wire::Opcode>(handle.opcode)]; lose > 0) {
    --lose;
    return;
  }
  network_.scope.spawn(carry(network_, std::move(asked), header, std::move(bytes)));
}

// ---- FakeServer

FakeServer::FakeServer(FakeNetwork& network, uint16_t port)
    : port_(port),
      transport_(network),
      registry_(transport_),
      rpc_(network.reactor, transport_),
      scope_(network.reactor),
      recovery(network.reactor, transport_, registry_) {
  request.name = "server-" + std::to_string(port);
  request.locator = locator().to_string();
  request.locator_outside = Locator{"tcp", {"outside.example", port}}.to_string();
  request.nonce = network.reactor.random().next() | 1;
  registry_.add(wire::Opcode::kUpdateServerList, &call_member<&FakeServer::on_list, FakeServer>,
                this);
  registry_.add(wire::Opcode::kTakeTablet, &call_member<&FakeServer::on_take, FakeServer>, this);
  registry_.add(wire::Opcode::kDropTablet, &call_member<&FakeServer::on_drop, FakeServer>, this);
  registry_.add(wire::Opcode::kGetServerStats, &call_member<&FakeServer::on_stats, FakeServer>,
                this);
  registry_.add(wire::Opcode::kRestate, &call_member<&FakeServer::on_restate, FakeServer>, this);
  registry_.add(wire::Opcode::kPing, &call_member<&FakeServer::on_ping, FakeServer>, this);
  registry_.add(wire::Opcode::kProbePeer, &call_member<&FakeServer::on_probe_peer, FakeServer>,
                this);
  registry_.add(wire::Opcode::kGetReplicasOn, &call_member<&FakeServer::on_replicas_on, FakeServer>,
                this);
  registry_.add(wire::Opcode::kResizeLog, &call_member<&FakeServer::on_resize_log, FakeServer>,
                this);
  (void)transport_.listen(locator().address, Side::kInside, registry_);
}

void FakeServer::on_replicas_on(const Request& r) {
  if (former_build) {
    return reply_error(transport_, r.reply, {StatusCode::kUnsupported, "unknown operation"});
  }
  wire::GetReplicasOnRequest asked;
  if (!r.decode(asked)) violation = "a question after replicas that does not decode";
  if (asked.term < heard_term) return refuse_term(r, asked.term);
  asked_about = asked.server_ids;
  scope_.spawn(say_need(r.reply));
}

/// Resizes at once; refuses more than the maximum.
void FakeServer::on_resize_log(const Request& r) {
  wire::ResizeLogRequest asked;
  if (!r.decode(asked)) violation = "an order to resize that does not decode";
  if (asked.term < heard_term) return refuse_term(r, asked.term);
  if (former_build) {
    return reply_error(transport_, r.reply, {StatusCode::kUnsupported, "unknown operation"});
  }
  if (asked.log_bytes > memory.most_bytes) {
    return reply_error(transport_, r.reply, {StatusCode::kInvalidArgument, "accepted is less"});
  }
  if (asked.log_bytes != 0) {
    memory.target_bytes = memory.limit_bytes = memory.held_bytes = asked.log_bytes;
  }
  reply_message(transport_, r.reply, memory);
}

Task<void> FakeServer::say_need(ReplyHandle handle) {
  co_await rpc_.reactor().sleep(think);
  need.list_version = list_it_judges_by.value_or(list.version);
  reply_message(transport_, handle, need);
}

void FakeServer::start_again() {
  request.former_server_id = id;
  request.nonce += 2;
  id = 0;
  transport_.set_identity({});
}

Task<Result<wire::Empty>> FakeServer::report(uint64_t server_id) {
  const Locator coordinator{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
  return rpc_.call<wire::Empty>(coordinator, 0, wire::Opcode::kReportServer,
                                wire::ReportServerRequest{id, server_id, wire::PeerState::kBroken},
                                rpc_.reactor().now() + 1s);
}

void FakeServer::on_ping(const Request& r) {
  reply_message(transport_, r.reply, wire::Empty());
}

void FakeServer::on_probe_peer(const Request& r) {
  if (former_build) {
    return reply_error(transport_, r.reply, {StatusCode::kUnsupported, "unknown operation"});
  }
  wire::ProbePeerRequest asked;
  if (!r.decode(asked)) violation = "an indirect probe that does not decode";
  ++indirect_probes;
  scope_.spawn(probe_peer(r.reply, asked));
}

Task<void> FakeServer::probe_peer(ReplyHandle handle, wire::ProbePeerRequest asked) {
  wire::ProbePeerReply reply;
  for (const auto& listed : list.servers) {
    if (listed.server_id != asked.server_id) continue;
    const ProbeResult look = co_await ramcloud::probe_peer(
        rpc_, *parse_locator(listed.locator), asked.server_id, wire::Opcode::kPing, {},
        rpc_.reactor().now() + std::chrono::milliseconds(asked.timeout_ms));
    reply.state =
        late && look.state != wire::PeerState::kAnswered ? wire::PeerState::kVoid : look.state;
    break;
  }
  reply_message(transport_, handle, reply);
}

Task<Result<wire::EnlistReply>> FakeServer::enlist(Duration timeout) {
  const Locator coordinator{"tcp", {"10.0.0.1", FakeCluster::kCoordinatorPort}};
  auto reply = co_await rpc_.call<wire::EnlistReply>(coordinator, 0, wire::Opcode::kEnlist, request,
                                                     rpc_.reactor().now() + timeout);
  if (reply) {
    id = reply->server_id;
    // A newer list may have been pushed already.
    if (std::tie(reply->list.term, reply->list.version) > std::tie(list.term, list.version)) {
      list = reply->list;
    }
    transport_.set_identity({reply->cluster_uuid, id});
  }
  co_return reply;
}

void FakeServer::on_list(const Request& r) {
  wire::ServerList got;
  if (!r.decode(got)) violation = "a list that does not decode";
  pushed_entries += got.servers.size();
  const auto order = [](const wire::ServerList& l) { return std::pair(l.term, l.version); };
  if (order(got) > order(list) && got.base_version != 0) {
    if (got.base_version != list.version) {
      reply_error(transport_, r.reply, {StatusCode::kWrongVersion, "another base"});
      return;
    }
    for (const auto& entry : got.servers) {
      std::erase_if(list.servers, [&](const auto& e) { return e.server_id == entry.server_id; });
      if (entry.state != wire::ServerState::kRemoved) list.servers.push_back(entry);
    }
    std::ranges::sort(list.servers, {}, &wire::ServerListEntry::server_id);
    list.term = got.term;
    list.version = got.version;
  } else if (order(got) > order(list)) {
    list = got;
  }
  reply_message(transport_, r.reply, wire::Empty());
}

void FakeServer::on_take(const Request& r) {
  wire::TakeTabletRequest got;
  if (!r.decode(got)) violation = "a take that does not decode";
  if (refuse_takes > 0) {
    --refuse_takes;
    reply_error(transport_, r.reply, {StatusCode::kRetry, "busy"});
    return;
  }
  if (got.term < heard_term) return refuse_term(r, got.term);
  Order& order = orders[got.table_id];
  if (got.revision < order.revision) {
    ++outdated_orders;
    wire::ErrorDetails details;
    details.term = heard_term;
    reply_error(transport_, r.reply, {StatusCode::kStaleTerm, "old revision"}, 0, details);
    return;
  }
  order = {got.revision, false, got.table_name};
  tablets[got.table_id][got.start_hash] = got.end_hash;
  if (former_build) return transport_.reply(r.reply, StatusCode::kOk, {});
  const auto [at, fresh] = positions.try_emplace({got.table_id, got.start_hash}, log_head + 1);
  if (fresh) ++log_head;
  reply_message(transport_, r.reply, wire::TakeTabletReply{at->second});
}

void FakeServer::on_drop(const Request& r) {
  wire::DropTabletRequest got;
  if (!r.decode(got)) violation = "a drop that does not decode";
  if (got.term < heard_term) return refuse_term(r, got.term);
  Order& order = orders[got.table_id];
  if (got.revision < order.revision) ++outdated_orders;
  order.revision = std::max(order.revision, got.revision);
  order.drop = true;
  tablets.erase(got.table_id);
  std::erase_if(positions, [&](const auto& at) { return at.first.first == got.table_id; });
  reply_message(transport_, r.reply, wire::Empty());
}

void FakeServer::refuse_term(const Request& r, uint64_t term) {
  ++term_refusals;
  wire::ErrorDetails details;
  if (!former_build) details.term = heard_term;
  reply_error(transport_, r.reply,
              {StatusCode::kStaleTerm, "term " + std::to_string(term) +
                                           " is of a former coordinator; the present one is " +
                                           std::to_string(heard_term)},
              0, details);
}

void FakeServer::on_stats(const Request& r) {
  wire::GetServerStatsRequest got;
  if (!r.decode(got)) violation = "a probe that does not decode";
  if (got.term < heard_term) {
    return refuse_term(r, got.term);
  }
  stats.list_version = list.version;
  reply_message(transport_, r.reply, stats);
}

void FakeServer::on_restate(const Request& r) {
  wire::RestateRequest got;
  if (!r.decode(got)) violation = "a restate request that does not decode";
  if (former_build) {
    return reply_error(transport_, r.reply, {StatusCode::kUnsupported, "unknown operation"});
  }
  if (keeps_to_itself) return reply_error(transport_, r.reply, {StatusCode::kRetry, "busy"});
  if (got.term < heard_term) return refuse_term(r, got.term);
  ++restated;
  wire::Restatement all;
  all.server_id = id;
  all.enlisted = request;
  all.list = list;
  for (const auto& [table_id, order] : orders) {
    auto& table = all.tables.emplace_back();
    table.table_id = table_id;
    table.revision = order.revision;
    table.dropped = order.drop;
    table.name = order.name;
    if (!tablets.contains(table_id)) continue;
    for (const auto& [start, end] : tablets.at(table_id)) {
      const auto at = positions.find({table_id, start});
      table.tablets.push_back({start, end, at == positions.end() ? 0 : at->second});
    }
  }
  all.lowest_open_segment = lowest_open_segment;
  all.epoch = epoch;
  reply_message(transport_, r.reply, all);
}

// ---- FakeCluster

FakeCluster::FakeCluster(uint64_t seed, SimMetadata::Options o)
    : reactor(clock, source, seed, {}), network(reactor), store_options(o) {
  options.cluster_name = "test";
  options.version = "1.2.3";
  options.admin_address = "inside:1";
  options.admin_address_outside = "outside:2";
  client_transport = std::make_unique<FakeTransport>(network);
  client = std::make_unique<RpcClient>(reactor, *client_transport);
}

FakeCluster::~FakeCluster() {
  network.scope.cancel_all();
  stop_coordinator();
}

Status FakeCluster::start_coordinator() {
  store = std::make_unique<SimMetadata>(reactor, metadata, store_options);
  transport = std::make_unique<FakeTransport>(network);
  rpc = std::make_unique<RpcClient>(reactor, *transport);
  registry = std::make_unique<ServiceRegistry>(*transport);
  coordinator = std::make_unique<Coordinator>(*rpc, *registry, *store, metrics, options);
  (void)transport->listen({"10.0.0.1", kCoordinatorPort}, Side::kInside, *registry);
  (void)transport->listen({"10.0.0.1", kOutsidePort}, Side::kOutside, *registry);
  // Waits until the lease of a coordinator that was stopped before has ended.
  for (;;) {
    (void)wait_for(store->campaign("10.0.0.1"));
    if (store->leading() != 0) break;
    run_for(50ms);
  }
  return wait_for(coordinator->start(store->leading()));
}

void FakeCluster::stop_coordinator() {
  coordinator.reset();
  registry.reset();
  rpc.reset();
  transport.reset();
  store.reset();
}

Status FakeCluster::import_records(MetadataStore::Records exported) {
  if (coordinator) stop_coordinator();
  if (Status left = leave_gap(exported); !left.ok()) return left;
  metadata = SimMetadataState();
  metadata.records = std::move(exported);
  invariants = {};
  return start_coordinator();
}

FakeServer& FakeCluster::add_server() {
  const auto port = static_cast<uint16_t>(12'000 + servers.size());
  servers.push_back(std::make_unique<FakeServer>(network, port));
  FakeServer& server = *servers.back();
  if (prepare) prepare(server);
  while (!wait_for(server.enlist(1s))) {
  }
  return server;
}

void FakeCluster::kill_server(FakeServer& server) {
  std::ranges::find(servers, &server, &std::unique_ptr<FakeServer>::get)->reset();
}

bool FakeCluster::run_until(const std::function<bool()>& done, Duration limit) {
  const Time end = clock.now() + limit;
  while (!done()) {
    const bool worked = reactor.turn();
    const bool look = ++turns % turns_between_checks == 0;
    if (look && coordinator != nullptr && coordinator->ready() && violation.empty()) {
      const Status sound = invariants.check(coordinator->state());
      if (!sound.ok()) violation = sound.to_string();
    }
    if (worked || reactor.has_pending()) continue;
    const Time next = std::min(end, reactor.next_deadline());
    if (next >= end) {
      clock.advance_to(end);
      return done();
    }
    clock.advance_to(next);
  }
  return true;
}

}  // namespace ramcloud::testing
