// The admin API over a real gRPC connection; the cluster behind it is a fake, the time is real.
#include "coordinator/admin/admin_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "admin.grpc.pb.h"
#include "coordinator/admin/admin_client.h"
#include "coordinator/admin/admin_convert.h"
#include "coordinator/core/testing/fake_cluster.h"
#include "coordinator/metadata/sim_metadata.h"
#include "runtime/epoll_source.h"
#include "runtime/thread.h"
#include "wire/testing/filler.h"

namespace ramcloud {
namespace {

namespace pb = admin::v1;
using testing::FakeNetwork;
using testing::FakeServer;
using testing::FakeTransport;
using ::testing::HasSubstr;

class AdminServiceTest : public ::testing::Test {
 protected:
  /// A lease of real time: a machine that others use too may take seconds for a turn.
  explicit AdminServiceTest(Duration lease = 60s)
      : store_(reactor_, metadata_, SimMetadata::Options{.lease = lease}) {}
  void begin(int servers, AdminService::Options options = {}) {
    coordinator_options_.cluster_name = "admin-test";
    coordinator_options_.version = "1.2.3";
    coordinator_options_.detector.interval = 50ms;
    node_ = std::make_unique<CoordinatorNode>(
        rpc_, transport_, store_, metrics_, coordinator_options_,
        [](const Status& why) { FAIL() << "the coordinator gave up: " << why.to_string(); });
    ASSERT_TRUE(transport_.listen({"10.0.0.1", 11100}, Side::kInside, *node_).has_value());
    node_->start();
    reactor_.run_until([this] { return node_->leading() != nullptr; });
    for (int i = 0; i < servers; ++i) {
      servers_.push_back(std::make_unique<FakeServer>(network_, static_cast<uint16_t>(12'000 + i)));
      ASSERT_TRUE(run_task(reactor_, servers_.back()->enlist(10s)).has_value());
    }
    service_ = std::make_unique<AdminService>(*node_, options, metrics_);
    const auto bound = service_->start({"127.0.0.1", 0});
    ASSERT_TRUE(bound.has_value()) << bound.error().to_string();
    address_ = *bound;
    channel_ = grpc::CreateChannel(address_.to_string(), grpc::InsecureChannelCredentials());
    stub_ = pb::Admin::NewStub(channel_);
    loop_ = Thread("reactor", [this] { reactor_.run(); });
  }
  void TearDown() override { end(); }
  /// Ends as the daemon does: the loop first, then everything in reverse order.
  void end() {
    reactor_.stop();
    loop_.join();
    service_.reset();
    network_.scope.cancel_all();
    node_.reset();
  }
  void on_reactor(std::function<void()> fn) {
    std::atomic<bool> done{false};
    reactor_.post([&] {
      fn();
      done = true;
      done.notify_all();
    });
    done.wait(false);
  }
  static std::unique_ptr<grpc::ClientContext> context() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return context;
  }
  grpc::Status create(const std::string& name, uint32_t span, pb::Table* table) {
    pb::CreateTableRequest request;
    request.set_name(name);
    request.set_span(span);
    return stub_->CreateTable(context().get(), request, table);
  }

  SystemClock clock_;
  EpollSource source_;
  Reactor reactor_{clock_, source_, 1, {}};
  FakeNetwork network_{reactor_};
  FakeTransport transport_{network_};
  RpcClient rpc_{reactor_, transport_};
  SimMetadataState metadata_;
  SimMetadata store_;
  MetricsRegistry metrics_;
  Coordinator::Options coordinator_options_;
  std::unique_ptr<CoordinatorNode> node_;
  std::vector<std::unique_ptr<FakeServer>> servers_;
  std::unique_ptr<AdminService> service_;
  HostPort address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::Admin::Stub> stub_;
  Thread loop_;
};

TEST_F(AdminServiceTest, AStandbyNamesTheLeaderAndTheClientFollows) {
  begin(0);  // leads
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 2, {});
  FakeNetwork network(reactor);
  FakeTransport transport(network);
  RpcClient rpc(reactor, transport);
  SimMetadataState metadata = metadata_;
  metadata.leader_owner = 99;
  metadata.lease_end = kNever;
  metadata.leader.record =
      encode_record(LeaderRecord{"tcp:host=10.0.0.1,port=11100", "", address_.to_string(), "out:1"},
                    kMetadataFormatMin);
  SimMetadata store(reactor, metadata);
  MetricsRegistry metrics;
  CoordinatorNode standby(rpc, transport, store, metrics, {}, [](const Status&) { FAIL(); });
  standby.start();
  reactor.run_until([&] { return standby.serves_or_redirects(); });
  EXPECT_FALSE(standby.is_leading());
  EXPECT_EQ(
      standby.redirect(Side::kInside).to_string(),
      "NOT_LEADER: this coordinator is a standby; the leader is tcp:host=10.0.0.1,port=11100");
  EXPECT_THAT(standby.redirect(Side::kOutside).message(), HasSubstr("knows of no leader"));
  AdminService service(standby, {}, metrics);
  const auto bound = service.start({"127.0.0.1", 0});
  ASSERT_TRUE(bound.has_value());
  {
    Thread loop("standby", [&] { reactor.run(); });
    const auto stub = pb::Admin::NewStub(
        grpc::CreateChannel(bound->to_string(), grpc::InsecureChannelCredentials()));
    const auto asked = context();
    pb::ClusterStatus answer;
    const grpc::Status refused = stub->GetStatus(asked.get(), pb::GetStatusRequest(), &answer);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
    const auto trailers = asked->GetServerTrailingMetadata();
    ASSERT_TRUE(trailers.contains(kLeaderTrailer));
    const auto leader = trailers.find(kLeaderTrailer)->second;
    EXPECT_EQ(std::string(leader.data(), leader.size()), address_.to_string());
    EXPECT_TRUE(trailers.contains(kLeaderOutsideTrailer));
    AdminClient client(*bound, 30s);
    const auto status = client.status();
    EXPECT_TRUE(status.has_value()) << status.error().to_string();
    if (status) EXPECT_EQ(status->cluster_name, "admin-test");
    reactor.stop();
  }
  service.stop();
}

class AdminServiceOfShortLeases : public AdminServiceTest {
 protected:
  AdminServiceOfShortLeases() : AdminServiceTest(1s) {}
};

TEST_F(AdminServiceOfShortLeases, WatchersAreToldWhenTheLeadershipIsLost) {
  begin(0);
  const auto watching = context();
  auto stream = stub_->Watch(watching.get(), pb::WatchRequest());
  pb::WatchEvent event;
  while (stream->Read(&event) && !event.snapshot_complete()) {
  }
  on_reactor([this] { store_.set_cut_off(true); });
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  pb::ClusterStatus answer;
  EXPECT_EQ(stub_->GetStatus(context().get(), pb::GetStatusRequest(), &answer).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(AdminServiceTest, TablesAndStatusThroughTheClient) {
  begin(2);
  pb::Table table;
  ASSERT_TRUE(create("t", 2, &table).ok());
  EXPECT_EQ(table.tablets_size(), 2);
  pb::Table single;
  ASSERT_TRUE(create("u", 0, &single).ok()) << "span 0 means 1";
  EXPECT_EQ(single.tablets_size(), 1);

  AdminClient client(address_, 30s);
  const auto status = client.status();
  ASSERT_TRUE(status.has_value()) << status.error().to_string();
  EXPECT_EQ(status->cluster_name, "admin-test");
  EXPECT_EQ(status->servers_up, 2u);
  EXPECT_EQ(status->tables, 2u);
  EXPECT_EQ(status->tablets, 3u);
  EXPECT_EQ(status->health, "HEALTHY");
  const auto servers = client.servers();
  ASSERT_TRUE(servers.has_value());
  ASSERT_EQ(servers->size(), 2u);
  EXPECT_EQ((*servers)[1].id, 2u);
  EXPECT_EQ((*servers)[1].name, "server-12001");
  const auto tables = client.tables("u");
  ASSERT_TRUE(tables.has_value());
  ASSERT_EQ(tables->size(), 1u);
  EXPECT_EQ((*tables)[0].name, "u");
  EXPECT_EQ(client.tables()->size(), 2u);
  EXPECT_EQ(client.tables("nope").error().to_string(), "NOT_FOUND: table 'nope' does not exist");
}

TEST_F(AdminServiceTest, AVolumeIsReleasedThroughTheClient) {
  begin(2);
  AdminClient client(address_, 30s);
  const auto no = client.volume_release(1);
  ASSERT_TRUE(no.has_value()) << no.error().to_string();
  EXPECT_FALSE(no->releasable);
  EXPECT_THAT(no->reason, HasSubstr("server 1 (server-12000) is UP"));
  EXPECT_EQ(no->token, "");
  ASSERT_TRUE(client.condemn(1, /*confirmed=*/true, /*force=*/true, "").has_value());
  const auto yes = client.volume_release(1);
  ASSERT_TRUE(yes.has_value()) << yes.error().to_string();
  EXPECT_TRUE(yes->releasable) << yes->reason;
  EXPECT_THAT(yes->token, HasSubstr("/1/1/"));
  EXPECT_GT(yes->expires_at_ms, 0u);
}

TEST_F(AdminServiceTest, TheMemoryOfAServerIsSetThroughTheClient) {
  begin(2);
  AdminClient client(address_, 30s);
  on_reactor([&] {
    servers_[0]->memory.most_bytes = 1000;
    servers_[0]->memory.notes = {"the hash table stays"};
  });
  for (int again = 0; again < 2; ++again) {
    const auto set = client.set_log_memory(1, 800);
    ASSERT_TRUE(set.has_value()) << set.error().to_string();
    EXPECT_EQ(set->target_bytes, 800u);
    EXPECT_TRUE(set->done());
    EXPECT_EQ(set->most_bytes, 1000u);
    EXPECT_THAT(set->notes, ::testing::ElementsAre("the hash table stays"));
  }
  const auto refused = client.set_log_memory(1, 2000);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("server 1: accepted is less"));
  EXPECT_EQ(client.set_log_memory(9, 800).error().code(), StatusCode::kNotFound);
  const auto told = client.set_log_memory(1, 0);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->target_bytes, 800u) << "nothing is changed";
  on_reactor([&] { servers_[1]->former_build = true; });
  EXPECT_EQ(client.set_log_memory(2, 800).error().code(), StatusCode::kUnsupported);
  ASSERT_TRUE(client.condemn(1, /*confirmed=*/true, /*force=*/true, "").has_value());
  EXPECT_THAT(client.set_log_memory(1, 800).error().message(), HasSubstr("it is not: condemned"));
}

TEST_F(AdminServiceTest, ErrorsKeepTheirMeaning) {
  begin(1);
  pb::Table table;
  const grpc::Status bad = create("t", 5, &table);
  EXPECT_EQ(bad.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(bad.error_message(),
            "span 5 is not accepted; accepted: 1 to 1 (the servers that are up)");
  pb::DropTableRequest drop;
  pb::DropTableResponse dropped;
  drop.set_name("t");
  EXPECT_EQ(stub_->DropTable(context().get(), drop, &dropped).error_code(),
            grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(create("t", 1, &table).ok());
  EXPECT_TRUE(stub_->DropTable(context().get(), drop, &dropped).ok());
}

TEST_F(AdminServiceTest, ACallThatWasGivenUpIsNotMadeLaterAndCountsUntilItEnds) {
  coordinator_options_.calls_at_once = 1;
  begin(1);
  pb::Table table;
  ASSERT_TRUE(create("t", 1, &table).ok());
  std::atomic<bool> tried{false};
  Time tried_at{};
  on_reactor([&] {
    store_.set_full(true);
    store_.set_probe([&](SimMetadata::Point, const MetadataTransaction&) {
      if (!tried) tried_at = reactor_.now();
      tried = true;
    });
  });
  const auto wait = std::chrono::milliseconds(500);
  grpc::Status status;
  Thread caller("caller", [&] {
    pb::DropTableRequest drop;
    pb::DropTableResponse dropped;
    drop.set_name("t");
    const auto hurried = context();
    hurried->set_deadline(std::chrono::system_clock::now() + wait);
    status = stub_->DropTable(hurried.get(), drop, &dropped);
  });
  while (!tried) std::this_thread::yield();
  const grpc::Status refused = create("other", 1, &table);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.error_message(), "too many calls are waiting at the coordinator");
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  for (bool late = false; !late;) on_reactor([&] { late = reactor_.now() >= tried_at + wait; });
  on_reactor([this] { store_.set_full(false); });
  while (!create("other", 1, &table).ok()) std::this_thread::yield();
  AdminClient client(address_, 30s);
  EXPECT_EQ(client.tables()->size(), 2u);
  on_reactor([this] { store_.set_probe(nullptr); });
}

TEST_F(AdminServiceTest, NobodyThereIsSaidSo) {
  begin(0);
  {
    AdminService other(*node_, {}, metrics_);
    const auto taken = other.start(address_);
    ASSERT_FALSE(taken.has_value());
    EXPECT_THAT(taken.error().message(), HasSubstr(address_.to_string()));
  }
  end();
  AdminClient client(address_, 30s);
  const auto status = client.status();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.error().message(), HasSubstr("admin API at " + address_.to_string()));
}

/// Reads until `done` says so; revisions never fall.
void read_until(grpc::ClientReader<pb::WatchEvent>& reader,
                const std::function<bool(const pb::WatchEvent&)>& done) {
  pb::WatchEvent event;
  uint64_t revision = 0;
  while (reader.Read(&event)) {
    EXPECT_GE(event.revision(), revision);
    revision = event.revision();
    if (done(event)) return;
  }
  ADD_FAILURE() << "the stream ended: " << reader.Finish().error_message();
}

TEST_F(AdminServiceTest, WatchGivesASnapshotThenChanges) {
  begin(2);
  pb::Table table;
  ASSERT_TRUE(create("before", 1, &table).ok());
  const auto watching = context();
  const auto reader = stub_->Watch(watching.get(), pb::WatchRequest());
  int servers = 0, tables = 0, statuses = 0;
  read_until(*reader, [&](const pb::WatchEvent& e) {
    servers += e.has_server();
    tables += e.has_table();
    statuses += e.has_status();
    return e.snapshot_complete();
  });
  EXPECT_EQ(servers, 2);
  EXPECT_EQ(tables, 1);
  EXPECT_EQ(statuses, 1);

  ASSERT_TRUE(create("after", 2, &table).ok());
  read_until(*reader, [](const pb::WatchEvent& e) {
    return e.table().name() == "after" && e.table().tablets(0).state() == pb::TABLET_NORMAL;
  });
  read_until(*reader, [](const pb::WatchEvent& e) { return e.status().tables() == 2; });
  pb::DropTableRequest drop;
  pb::DropTableResponse dropped;
  drop.set_name("before");
  ASSERT_TRUE(stub_->DropTable(context().get(), drop, &dropped).ok());
  read_until(*reader, [](const pb::WatchEvent& e) { return e.table_dropped() == "before"; });
  on_reactor([&] { servers_[1].reset(); });
  read_until(*reader, [](const pb::WatchEvent& e) {
    return e.server().id() == 2 && e.server().state() == pb::SERVER_CRASHED;
  });
  read_until(*reader, [](const pb::WatchEvent& e) { return e.status().health() == "UNAVAILABLE"; });
  watching->TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(AdminServiceTest, ASlowConsumerIsClosedAndTheOthersGoOn) {
  AdminService::Options options;
  options.watch_backlog = 200;
  begin(1, options);
  const auto slow_context = context();
  const auto slow = stub_->Watch(slow_context.get(), pb::WatchRequest());
  read_until(*slow, [](const pb::WatchEvent& e) { return e.snapshot_complete(); });
  // More than flow control lets through at once, without a turn in which the watcher could catch
  // up.
  on_reactor([&] {
    for (int i = 0; i < 100'000; ++i) node_->leading()->changes().server_changed(1);
  });
  pb::WatchEvent event;
  while (slow->Read(&event)) {
  }
  const grpc::Status closed = slow->Finish();
  EXPECT_EQ(closed.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(closed.error_message(), "the watcher is more than 200 events behind; watch again");
  const auto again_context = context();
  const auto again = stub_->Watch(again_context.get(), pb::WatchRequest());
  read_until(*again, [](const pb::WatchEvent& e) { return e.snapshot_complete(); });
  again_context->TryCancel();
}

TEST_F(AdminServiceTest, ManyWatchersAllSeeAChangeAndStoppingEndsThem) {
  AdminService::Options options;
  options.watchers = 50;
  begin(1, options);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<pb::WatchEvent>>> readers;
  for (int i = 0; i < 50; ++i) {
    contexts.push_back(context());
    readers.push_back(stub_->Watch(contexts.back().get(), pb::WatchRequest()));
    read_until(*readers.back(), [](const pb::WatchEvent& e) { return e.snapshot_complete(); });
  }
  const auto refused_context = context();
  const auto refused = stub_->Watch(refused_context.get(), pb::WatchRequest());
  pb::WatchEvent event;
  EXPECT_FALSE(refused->Read(&event));
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  pb::Table table;
  ASSERT_TRUE(create("t", 1, &table).ok());
  for (auto& reader : readers) {
    read_until(*reader, [](const pb::WatchEvent& e) { return e.table().name() == "t"; });
  }
  end();  // must not wait for watchers that do not read
  for (auto& reader : readers) {
    while (reader->Read(&event)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
}

TEST_F(AdminServiceTest, StoppingEndsACallThatWaits) {
  begin(1);
  on_reactor([&] { servers_[0]->refuse_takes = 1'000'000; });
  grpc::Status status;
  std::atomic<bool> done{false};
  pb::Table table;
  Thread caller("caller", [&] {
    status = create("t", 1, &table);
    done = true;
  });
  for (bool begun = false; !begun;) {
    on_reactor([&] { begun = !node_->leading()->state().tables.empty(); });
  }
  EXPECT_FALSE(done);
  end();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(AdminConvert, LossesAreToldWhole) {
  LossAnswer answer;
  answer.accepted = true;
  answer.effect = "much";
  LossPreview& preview = answer.preview;
  preview.missing.resize(2);
  preview.missing[0].segment_id = 4;
  preview.missing[0].why = "no whole replica";
  preview.missing[0].holders = {5, 6};
  preview.missing[0].found = 77;
  preview.missing[1].end = true;
  preview.more = preview.end_given_up = true;
  preview.newest_head = 9;
  preview.segments_found = 10;
  preview.bytes_found = 11;
  preview.bytes_lost = 12;
  preview.tables = {{"t", 2, 0.5}};
  preview.token = "loss/1/3/4";
  const LossAnswer back = from_proto(to_proto(answer));
  EXPECT_EQ(back.accepted, answer.accepted);
  EXPECT_EQ(back.effect, answer.effect);
  EXPECT_EQ(back.preview.missing, preview.missing);
  EXPECT_EQ(back.preview.more, preview.more);
  EXPECT_EQ(back.preview.end_given_up, preview.end_given_up);
  EXPECT_EQ(back.preview.newest_head, preview.newest_head);
  EXPECT_EQ(back.preview.segments_found, preview.segments_found);
  EXPECT_EQ(back.preview.bytes_found, preview.bytes_found);
  EXPECT_EQ(back.preview.bytes_lost, preview.bytes_lost);
  EXPECT_EQ(back.preview.tables, preview.tables);
  EXPECT_EQ(back.preview.token, preview.token);

  AcceptedLossRecord record = wire::testing::filled<AcceptedLossRecord>();
  record.version_floor = 0;  // not reported
  const AcceptedLossRecord same = from_proto(to_proto(record));
  EXPECT_EQ(encode_record(same, kMetadataFormatMax), encode_record(record, kMetadataFormatMax));
}

TEST_F(AdminServiceTest, ALossIsRefusedWithItsReason) {
  begin(1);
  AdminClient client(address_, 30s);
  const auto refused = client.accept_loss({1, false, "", "", ""});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("server 1 (server-12000) is UP"));
  EXPECT_EQ(client.accept_loss({7, false, "", "", ""}).error().code(), StatusCode::kNotFound);
  const auto losses = client.accepted_losses();
  ASSERT_TRUE(losses.has_value()) << losses.error().to_string();
  EXPECT_TRUE(losses->empty());
}

TEST(AdminConvert, RecoveriesAreToldWhole) {
  using Phase = RecoveryProgress::Phase;
  ClusterStatus status;
  for (const Phase phase : {Phase::kQuerying, Phase::kWaiting, Phase::kBlocked, Phase::kReplaying,
                            Phase::kHandingOver}) {
    RecoveryView& view = status.recoveries.emplace_back();
    view.server_id = 7;
    view.name = "pod-7";
    view.progress = {
        .phase = phase,
        .waits_for = "a backup",
        .missing = {{3, "no whole replica of it was found", {4, 5}}, {0, "digest", {}}},
        .attempt = 91,
        .parts = 3,
        .parts_done = 1,
        .bytes_total = 1'000'000,
        .bytes_done = 5000,
        .begun_at_ms = 1'700'000'000'000,
        .outcome = "TAIL_LOST",
        .reason = "its port refuses",
        .done = false,
        .crashed_at_ms = 1'699'999'999'900,
        .timeline = {.verdict = 0,
                     .queried = 1,
                     .planned = 2,
                     .first_key = 3,
                     .half = {},
                     .served = 5,
                     .replicated = 6},
        .entries = 11,
        .partitions = {{1, 5, "REPLAYING", 100, 50}, {2, 6, "DONE", 200, 200}},
        .needed_bytes = 12,
        .free_bytes = 13};
  }
  status.recoveries_ended.push_back(status.recoveries.back());
  status.recoveries_ended.back().progress.done = true;
  status.survives_servers = 2;
  const ClusterStatus back = from_proto(to_proto(status));
  EXPECT_EQ(back.recoveries, status.recoveries);
  EXPECT_EQ(back.recoveries_ended, status.recoveries_ended);
  EXPECT_EQ(back.survives_servers, 2u);
}

TEST(AdminConvert, MemoryIsToldAlsoByAnEarlierCoordinator) {
  ClusterStatus status;
  status.memory = {.total_bytes = 400,
                   .used_bytes = 300,
                   .live_bytes = 200,
                   .hash_table_bytes = 100,
                   .target_bytes = 500,
                   .held_bytes = 450};
  status.cleaner = {wire::CleanerState::kCombined, "little is free", 1250};
  admin::v1::ClusterStatus told = to_proto(status);
  EXPECT_EQ(from_proto(told).memory, status.memory);
  EXPECT_EQ(from_proto(told).cleaner, status.cleaner);
  told.clear_memory();
  told.clear_cleaner();
  const ClusterStatus back = from_proto(told);
  EXPECT_EQ(back.memory, (MemorySummary{.total_bytes = 400, .used_bytes = 300}));
  EXPECT_EQ(back.cleaner, CleanerSummary());
}

}  // namespace
}  // namespace ramcloud
