// The commands about recoveries, and the status, against a coordinator whose admin API gives
// scripted answers, also those of an earlier version.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "admin.grpc.pb.h"
#include "cli/commands/recovery_view.h"
#include "cli/session.h"
#include "client/fake_cluster.h"
#include "runtime/thread.h"

namespace ramcloud::cli {
namespace {

namespace pb = admin::v1;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Answers with one status after the other, then repeats the last; after a given number of answers
/// it interrupts the process.
class FakeAdmin final : public pb::Admin::Service {
 public:
  std::vector<pb::ClusterStatus> statuses;
  std::set<size_t> refused;  // of these calls, counted from 0
  size_t interrupt_after = 0;
  pb::AcceptLossResponse loss;
  grpc::Status loss_status;
  pb::AcceptLossRequest asked;  // the last one
  pb::ListAcceptedLossesResponse losses;

  grpc::Status AcceptLoss(grpc::ServerContext*, const pb::AcceptLossRequest* request,
                          pb::AcceptLossResponse* answer) override {
    asked = *request;
    *answer = loss;
    return loss_status;
  }
  grpc::Status ListAcceptedLosses(grpc::ServerContext*, const pb::ListAcceptedLossesRequest*,
                                  pb::ListAcceptedLossesResponse* answer) override {
    *answer = losses;
    return grpc::Status::OK;
  }
  grpc::Status ListServers(grpc::ServerContext*, const pb::ListServersRequest*,
                           pb::ListServersResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status CondemnServer(grpc::ServerContext*, const pb::CondemnServerRequest* request,
                             pb::CondemnServerResponse*) override {
    return no_server(request->server_id());
  }
  grpc::Status SetServerMemory(grpc::ServerContext*, const pb::SetServerMemoryRequest* request,
                               pb::SetServerMemoryResponse*) override {
    return no_server(request->server_id());
  }
  grpc::Status GetStatus(grpc::ServerContext*, const pb::GetStatusRequest*,
                         pb::ClusterStatus* answer) override {
    const size_t call = calls_++;
    if (call + 1 == interrupt_after) kill(getpid(), SIGINT);
    if (refused.contains(call)) return {grpc::StatusCode::UNAVAILABLE, "it does not lead"};
    *answer = statuses[std::min(call, statuses.size() - 1)];
    return grpc::Status::OK;
  }

 private:
  static grpc::Status no_server(uint64_t id) {
    return {grpc::StatusCode::NOT_FOUND, fmt::format("server {} does not exist", id)};
  }
  std::atomic<size_t> calls_ = 0;
};

void add_blocked(pb::ClusterStatus& status) {
  pb::Recovery& recovery = *status.add_recoveries();
  recovery.set_server_id(3);
  recovery.set_name("pod-3");
  recovery.set_phase("BLOCKED");
  recovery.set_state("BLOCKED");
  recovery.set_waits_for("the volume of server 5");
  recovery.set_reason("its port refuses");
  recovery.set_attempt(91);
  recovery.set_parts(4);
  recovery.set_parts_done(1);
  recovery.set_bytes_total(4 << 20);
  recovery.set_bytes_done(1 << 20);
  recovery.set_begun_at_ms(1'700'000'000'200);
  recovery.set_crashed_at_ms(1'700'000'000'100);
  recovery.mutable_timeline_ms()->set_verdict(0);
  recovery.mutable_timeline_ms()->set_queried(1234);
  recovery.set_entries(5678);
  auto& partition = *recovery.add_partitions();
  partition.set_id(1);
  partition.set_recovery_master(7);
  partition.set_state("FAILED");
  partition.set_bytes(3 << 20);
  partition.set_bytes_replayed(2 << 20);
  auto& missing = *recovery.add_missing();
  missing.set_segment_id(42);
  missing.set_why("no whole replica");
  missing.add_holders(5);
  missing.add_holders(6);
  recovery.add_missing()->set_why("digest");
  recovery.mutable_memory()->set_needed_bytes(8 << 20);
  recovery.mutable_memory()->set_free_bytes(16 << 20);
}

void add_ended(pb::ClusterStatus& status, uint64_t id, const std::string& outcome) {
  pb::Recovery& recovery = *status.add_recoveries_ended();
  recovery.set_server_id(id);
  recovery.set_name("pod-" + std::to_string(id));
  recovery.set_phase("HANDING_OVER");
  recovery.set_state("DONE");
  recovery.set_outcome(outcome);
  recovery.set_attempt(90);
  recovery.set_crashed_at_ms(1'700'000'000'000);
  recovery.mutable_timeline_ms()->set_served(1500);
}

/// The answer of a coordinator of a version without states of recoveries.
void add_former(pb::ClusterStatus& status) {
  pb::Recovery& recovery = *status.add_recoveries();
  recovery.set_server_id(4);
  recovery.set_name("old");
  recovery.set_phase("REPLAYING");
  recovery.set_attempt(2);
  recovery.set_parts(2);
  recovery.set_bytes_total(2000);
  recovery.set_bytes_done(500);
  recovery.set_begun_at_ms(1'700'000'000'000);
}

class RecoveryCommandTest : public testing::Test {
 protected:
  struct Outcome {
    int code;
    std::string out, err;
  };

  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&admin_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    const std::string address = "127.0.0.1:" + std::to_string(port);
    std::promise<std::pair<std::string, Reactor*>> started;
    auto future = started.get_future();
    thread_ = Thread("fake-cluster", [this, &started, address] {
      FakeWorld world;
      FakeNode coordinator(world, 0, [&](FakeNode& node, const FakeNode::Call& call) {
        wire::ClusterInfo info;
        info.cluster_uuid = {7};
        info.admin_address = address;
        node.ok(call, wire::encode(info, call.handle.version));
      });
      started.set_value({coordinator.locator().address.to_string(), &world.reactor});
      world.reactor.run();
      stopped_.get_future().wait();  // run() may return while stop() still wakes the reactor
    });
    std::tie(cluster_, reactor_) = future.get();
  }
  void TearDown() override {
    reactor_->stop();
    stopped_.set_value();
    thread_.join();
    server_->Shutdown();
  }

  pb::ClusterStatus& status() { return admin_.statuses.emplace_back(); }

  Outcome run(std::vector<const char*> arguments, bool terminal = false) {
    arguments.insert(arguments.begin(), {"ramcloud", "--cluster", cluster_.c_str()});
    std::istringstream in;
    std::ostringstream out, err;
    Session session(in, out, err);
    session.out_is_terminal = terminal;
    const int code = run_cli(static_cast<int>(arguments.size()), arguments.data(), session);
    return {code, out.str(), err.str()};
  }
  json run_json(std::vector<const char*> arguments) {
    arguments.insert(arguments.end(), {"-o", "json"});
    return json::parse(run(arguments).out);
  }

  FakeAdmin admin_;
  std::unique_ptr<grpc::Server> server_;
  std::string cluster_;
  Reactor* reactor_ = nullptr;
  std::promise<void> stopped_;
  Thread thread_;
};

TEST_F(RecoveryCommandTest, ListsThoseThatRunAndThoseThatEndedTheLatestFirst) {
  auto& now = status();
  add_blocked(now);
  add_ended(now, 1, "COMPLETE");
  add_ended(now, 2, "TAIL_LOST");
  const json list = run_json({"recovery", "list"});
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["server_id"], 3);
  EXPECT_EQ(list[0]["ended"], false);
  EXPECT_EQ(list[1]["server_id"], 2);
  EXPECT_EQ(list[1]["ended"], true);
  EXPECT_EQ(list[1]["state"], "DONE");
  EXPECT_EQ(list[1]["outcome"], "TAIL_LOST");
  EXPECT_EQ(list[2]["outcome"], "COMPLETE");
  const Outcome table = run({"recovery", "list"});
  EXPECT_EQ(table.code, kExitOk);
  EXPECT_THAT(table.out, HasSubstr("\n2       pod-2  DONE     TAIL_LOST"));
  EXPECT_THAT(table.out, HasSubstr("1.5\n")) << "seconds until all was served";
  EXPECT_EQ(run({"recoveries"}).out.substr(0, 50), table.out.substr(0, 50));
  EXPECT_EQ(run_json({"recoveries"}), list);
}

TEST_F(RecoveryCommandTest, JsonTellsAllOfARecovery) {
  add_blocked(status());
  const json shown = run_json({"recovery", "show", "3"});
  EXPECT_EQ(shown, run_json({"recovery", "list"})[0]);
  const json expected = json::parse(R"({
    "id": 3, "server_id": 3, "server_name": "pod-3", "state": "BLOCKED", "ended": false,
    "outcome": null, "reason": "its port refuses", "attempt": 91,
    "crashed_at_ms": 1700000000100,
    "timeline_ms": {"verdict": 0, "queried": 1234, "planned": null, "first_key": null,
                    "half": null, "served": null, "replicated": null},
    "bytes": 4194304, "bytes_replayed": 1048576, "entries": 5678,
    "partitions": [{"id": 1, "recovery_master": 7, "state": "FAILED", "bytes": 3145728,
                    "bytes_replayed": 2097152}],
    "memory": {"needed_bytes": 8388608, "free_bytes": 16777216},
    "waits_for": "the volume of server 5", "parts": 4, "parts_done": 1,
    "blocked_segments": [
      {"segment": 42, "last_holders": [5, 6], "why": "no whole replica"},
      {"segment": null, "last_holders": [], "why": "digest"}],
    "missing": [{"segment_id": 42, "why": "no whole replica", "holders": [5, 6]},
                {"segment_id": 0, "why": "digest", "holders": []}],
    "name": "pod-3", "phase": "BLOCKED", "bytes_total": 4194304, "bytes_done": 1048576,
    "begun_at_ms": 1700000000200})");
  EXPECT_EQ(shown, expected);
}

TEST_F(RecoveryCommandTest, ShowsOneInFull) {
  add_blocked(status());
  const Outcome shown = run({"recovery", "show", "3"});
  EXPECT_EQ(shown.code, kExitOk);
  for (const char* part :
       {"server       server 3 (pod-3)\n", "state        BLOCKED, attempt 91\n",
        "outcome      not known\n", "reason       its port refuses\n",
        "crashed at   2023-11-14T22:13:20.100Z\n", "waits for    the volume of server 5\n",
        "data         1.0 MiB of 4.0 MiB (25%), 5,678 objects\n", "parts        1 of 4 done\n",
        "memory       8.0 MiB needed, 16.0 MiB free\n", "verdict     0 ms ",
        "queried     1,234 ms ", "served      ? ",
        "1     7                FAILED  2.0 MiB / 3.0 MiB\n",
        "42               5, 6          no whole replica\n",
        "?                ?             digest\n"}) {
    EXPECT_THAT(shown.out, HasSubstr(part));
  }
}

TEST_F(RecoveryCommandTest, WhatAFormerCoordinatorDoesNotTellIsNotKnown) {
  add_former(status());
  const json shown = run_json({"recovery", "show", "4"});
  for (const char* field :
       {"state", "outcome", "reason", "crashed_at_ms", "entries", "partitions", "memory"}) {
    ASSERT_TRUE(shown.contains(field)) << field;
    EXPECT_TRUE(shown[field].is_null()) << field;
  }
  for (const auto& [step, at] : shown["timeline_ms"].items()) EXPECT_TRUE(at.is_null()) << step;
  EXPECT_EQ(shown["phase"], "REPLAYING");
  EXPECT_EQ(shown["bytes_done"], 500);
  const Outcome text = run({"recovery", "show", "4"});
  for (const char* part : {"state        REPLAYING, attempt 2\n", "outcome      not known\n",
                           "reason       not known\n", "crashed at   not known\n",
                           "(25%), objects not known\n", "memory       not known\n"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  EXPECT_THAT(text.out, Not(HasSubstr(" 0 ms")));
  EXPECT_THAT(run({"recovery", "list"}).out, HasSubstr("4       old   REPLAYING  ?        2 "));
}

TEST_F(RecoveryCommandTest, WhatIsPlannedLaterIsNotKnownYet) {
  pb::Recovery& recovery = *status().add_recoveries();
  recovery.set_server_id(3);
  recovery.set_name("pod-3");
  recovery.set_phase("WAITING");
  recovery.set_state("WAITING");
  recovery.set_waits_for("server 5");
  recovery.mutable_timeline_ms()->set_verdict(0);
  recovery.mutable_memory();
  const Outcome shown = run({"recovery", "show", "3"});
  for (const char* part : {"data         size not known, objects not known\n",
                           "parts        not known\n", "memory       not known\n"}) {
    EXPECT_THAT(shown.out, HasSubstr(part));
  }
  EXPECT_THAT(run({"recovery", "list"}).out,
              HasSubstr("3       pod-3  WAITING  ?        0        ?      ?      "));
  const json told = run_json({"recovery", "show", "3"});
  EXPECT_TRUE(told["entries"].is_null());
  EXPECT_TRUE(told["memory"].is_null());

  // An empty log is planned: now the zeros are known.
  recovery.set_state("REPLAYING");
  recovery.mutable_timeline_ms()->set_queried(5);
  recovery.mutable_timeline_ms()->set_planned(7);
  recovery.set_outcome("COMPLETE");
  recovery.set_parts(1);
  const Outcome planned = run({"recovery", "show", "3"});
  EXPECT_THAT(planned.out,
              AllOf(HasSubstr(", 0 objects\n"), HasSubstr("parts        0 of 1 done\n"),
                    HasSubstr("memory       0 B needed, 0 B free\n")));
  EXPECT_EQ(run_json({"recovery", "show", "3"})["entries"], 0);
}

TEST_F(RecoveryCommandTest, AServerWithoutReplicasLosesAllObjects) {
  add_ended(status(), 3, "ALL_LOST");
  EXPECT_THAT(run({"recovery", "list"}).out, HasSubstr("3       pod-3  DONE   ALL_LOST  "));
  EXPECT_THAT(run({"recovery", "show", "3"}).out,
              HasSubstr("outcome      ALL_LOST: the server had no replicas (--replicas 0), so all "
                        "objects of its tablets are lost\n"));
  EXPECT_EQ(run_json({"recovery", "show", "3"})["outcome"], "ALL_LOST");
}

TEST_F(RecoveryCommandTest, AnIdThatIsWrongIsNamedAndWhereTheIdsAre) {
  add_blocked(status());
  const Outcome absent = run({"recovery", "show", "8"});
  EXPECT_EQ(absent.code, kExitNotFound);
  EXPECT_EQ(absent.out, "");
  EXPECT_THAT(absent.err, AllOf(HasSubstr("no recovery of server 8 is known"),
                                HasSubstr("`ramcloud recovery list` shows the ids")));
  for (const char* bad : {"pod-3", "0", "-1", "3x", "", "99999999999999999999"}) {
    const Outcome refused = run({"recovery", "show", "--", bad});
    EXPECT_EQ(refused.code, kExitUsage) << bad;
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr(fmt::format("ID: it is '{}'; accepted is a whole number", bad)),
                      HasSubstr("`ramcloud recovery list` shows the ids")));
  }
}

TEST_F(RecoveryCommandTest, AServerThatDoesNotExistIsNotFound) {
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{"server", "show", "99"},
                                             {"server", "set", "99", "log-memory=1GiB"},
                                             {"server", "condemn", "99", "--yes"}}) {
    const Outcome absent = run(words);
    EXPECT_EQ(absent.code, kExitNotFound) << words[1];
    EXPECT_EQ(absent.out, "") << words[1];
    EXPECT_EQ(absent.err,
              "ramcloud: NOT_FOUND: server 99 does not exist; `ramcloud server list` shows the "
              "ids\n")
        << words[1];
  }
}

// ---- losses

void fill_preview(pb::AcceptLossResponse& loss) {
  loss.set_effect("1 segments of the log are missing, at most 7.0MiB.");
  loss.set_token("loss/1/3/00ab");
  auto& segment = *loss.add_missing();
  segment.set_segment_id(42);
  segment.set_why("no whole replica of it was found");
  segment.add_holders(5);
  segment.add_holders(6);
  segment.set_found_bytes(1 << 20);
  auto& end = *loss.add_missing();
  end.set_segment_id(44);
  end.set_end(true);
  end.set_why("it was closed");
  loss.set_end_missing(true);
  loss.set_newest_head(44);
  loss.set_segments_found(9);
  loss.set_bytes_found(70 << 20);
  loss.set_bytes_missing(7 << 20);
  auto& table = *loss.add_tables();
  table.set_name("orders");
  table.set_tablets(2);
  table.set_share(0.25);
}

TEST_F(RecoveryCommandTest, APreviewShowsWhatIsLostAndTheCommandThatAcceptsIt) {
  fill_preview(admin_.loss);
  const Outcome shown = run({"recovery", "accept-loss", "3"});
  EXPECT_EQ(shown.code, kExitFailed);
  EXPECT_EQ(shown.out, R"(1 segments of the log are missing, at most 7.0MiB.

MISSING SEGMENT  OF IT FOUND  LAST HOLDERS  WHY
42               1.0 MiB      5, 6          no whole replica of it was found
after 44         ?            ?             it was closed

TABLE   TABLETS  OF ITS HASHES
orders  2        25.0%
)");
  EXPECT_EQ(shown.err,
            "nothing was changed; what is shown is accepted by\n"
            "  ramcloud recovery accept-loss 3 --yes --token loss/1/3/00ab\n");
  EXPECT_EQ(admin_.asked.server_id(), 3u);
  EXPECT_FALSE(admin_.asked.confirmed());

  const json told = run_json({"recovery", "accept-loss", "3"});
  EXPECT_EQ(told, json::parse(R"({"server_id": 3, "accepted": false,
    "effect": "1 segments of the log are missing, at most 7.0MiB.", "token": "loss/1/3/00ab",
    "missing": [{"segment_id": 42, "end": false, "found_bytes": 1048576, "holders": [5, 6],
                 "why": "no whole replica of it was found"},
                {"segment_id": 44, "end": true, "found_bytes": 0, "holders": [],
                 "why": "it was closed"}],
    "more_missing": false, "end_missing": true, "newest_head": 44, "segments_found": 9,
    "bytes_found": 73400320, "bytes_missing": 7340032,
    "tables": [{"name": "orders", "tablets": 2, "share": 0.25}],
    "command": "ramcloud recovery accept-loss 3 --yes --token loss/1/3/00ab"})"));
}

TEST_F(RecoveryCommandTest, ALossIsAcceptedWithItsToken) {
  fill_preview(admin_.loss);
  admin_.loss.set_accepted(true);
  const Outcome done = run(
      {"recovery", "accept-loss", "3", "--yes", "--token", "loss/1/3/00ab", "--reason", "a fire"});
  EXPECT_EQ(done.code, kExitOk) << done.err;
  EXPECT_THAT(done.out, StartsWith("accepted: 1 segments"));
  EXPECT_TRUE(admin_.asked.confirmed());
  EXPECT_EQ(admin_.asked.token(), "loss/1/3/00ab");
  EXPECT_EQ(admin_.asked.reason(), "a fire");
  EXPECT_THAT(admin_.asked.by(), HasSubstr("@"));

  admin_.asked.Clear();
  const Outcome unseen = run({"recovery", "accept-loss", "3", "--yes"});
  EXPECT_EQ(unseen.code, kExitOk) << unseen.err;
  EXPECT_TRUE(admin_.asked.confirmed());
  EXPECT_EQ(admin_.asked.token(), "loss/1/3/00ab") << "that of what is missing now";

  const Outcome bad = run({"recovery", "accept-loss", "0"});
  EXPECT_EQ(bad.code, kExitUsage);
  EXPECT_THAT(bad.err, HasSubstr("`ramcloud recovery list` shows the ids"));
}

TEST_F(RecoveryCommandTest, AnEmptyTokenIsNotTheSameAsNone) {
  fill_preview(admin_.loss);
  admin_.loss.set_accepted(true);
  for (const std::vector<const char*>& flags :
       std::vector<std::vector<const char*>>{{"--yes", "--token", "", "--reason", "r"},
                                             {"--token", "", "--yes"},
                                             {"--reason", "r", "--yes", "--token", ""},
                                             {"--token", "loss/1/3/00ab", "--token", "", "--yes"},
                                             {"--token", ""}}) {
    std::vector<const char*> words = {"recovery", "accept-loss", "3"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome refused = run(words);
    EXPECT_EQ(refused.code, kExitUsage);
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(
        refused.err,
        HasSubstr("--token: it is empty; run the command without --yes to see the token, or "
                  "leave --token out to accept unseen whatever is missing now"));
  }
  // The parser takes the next word for the value.
  for (const std::vector<const char*>& flags : std::vector<std::vector<const char*>>{
           {"--yes", "--token=", "--reason", "r"}, {"--token=", "--yes"}}) {
    std::vector<const char*> words = {"recovery", "accept-loss", "3"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome refused = run(words);
    EXPECT_EQ(refused.code, kExitUsage);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("--token: it is '--"), HasSubstr("without --yes")));
  }
  EXPECT_EQ(run({"recovery", "accept-loss", "3", "--yes", "--token="}).code, kExitUsage);
  EXPECT_EQ(admin_.asked.server_id(), 0u) << "nothing was sent";
}

TEST_F(RecoveryCommandTest, TextsThatAreTooLongAreNotSent) {
  const std::string text(100'000, 'x');
  for (const char* option : {"--token", "--reason"}) {
    const Outcome refused = run({"recovery", "accept-loss", "3", "--yes", option, text.c_str()});
    EXPECT_EQ(refused.code, kExitUsage) << option;
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr(std::string(option) + ": "), HasSubstr("(100000 bytes)"),
                      HasSubstr("to 255 printable ASCII bytes")));
    EXPECT_LT(refused.err.size(), 1000u);
  }
  EXPECT_THAT(run({"server", "condemn", "3", "--reason", text.c_str()}).err,
              AllOf(HasSubstr("--reason: "), HasSubstr("0 to 255 printable ASCII bytes")));
  EXPECT_EQ(admin_.asked.server_id(), 0u) << "nothing was sent";
}

TEST_F(RecoveryCommandTest, ARefusalOfALossIsSaidAsItIs) {
  admin_.loss_status = {grpc::StatusCode::INVALID_ARGUMENT,
                        "server 3 (pod-3) is UP: no recovery of it is in progress"};
  const Outcome refused = run({"recovery", "accept-loss", "3"});
  EXPECT_NE(refused.code, kExitOk);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("server 3 (pod-3) is UP: no recovery of it is in progress"));
}

TEST_F(RecoveryCommandTest, LossesAreListedWithWhoAndWhen) {
  EXPECT_EQ(run_json({"recovery", "losses"}), json::array());
  auto& loss = *admin_.losses.add_losses();
  loss.set_server_id(3);
  loss.set_revision(77);
  loss.set_accepted_at_ms(1'700'000'000'250);
  loss.set_by("ada@desk");
  loss.set_reason("a fire");
  loss.set_summary("1 segments");
  loss.set_token("loss/1/3/00ab");
  loss.add_segments()->set_segment_id(42);
  loss.mutable_segments(0)->set_found_bytes(100);
  loss.set_end_given_up(true);
  loss.set_newest_head(44);
  loss.add_later(45);
  EXPECT_EQ(run({"recovery", "losses"}).out,
            R"(SERVER  ACCEPTED AT               BY        REASON  SEGMENTS
3       2023-11-14T22:13:20.250Z  ada@desk  a fire  42; the end after 44
)");
  EXPECT_EQ(run_json({"recovery", "losses"}), json::parse(R"([{"server_id": 3,
    "accepted_at_ms": 1700000000250, "by": "ada@desk", "reason": "a fire",
    "summary": "1 segments", "token": "loss/1/3/00ab",
    "segments": [{"segment_id": 42, "found_bytes": 100}], "end_given_up": true,
    "newest_head": 44, "later_segments": [45], "revision": 77}])"));
}

TEST_F(RecoveryCommandTest, WatchPrintsALineForEachChangeUntilItIsInterrupted) {
  add_blocked(status());
  pb::ClusterStatus same = admin_.statuses.back();
  admin_.statuses.push_back(same);
  same.mutable_recoveries(0)->set_bytes_done(2 << 20);
  admin_.statuses.push_back(same);
  add_ended(status(), 3, "COMPLETE");
  status();
  admin_.interrupt_after = 5;
  const Outcome watched = run({"recovery", "list", "--watch", "--interval", "100ms"});
  EXPECT_EQ(watched.code, kExitOk);
  EXPECT_EQ(watched.err, "");
  EXPECT_EQ(watched.out,
            "server 3 (pod-3): BLOCKED, attempt 91, 1 of 4 parts, 1.0 MiB of 4.0 MiB (25%); waits "
            "for the volume of server 5\n"
            "server 3 (pod-3): BLOCKED, attempt 91, 1 of 4 parts, 2.0 MiB of 4.0 MiB (50%); waits "
            "for the volume of server 5\n"
            "server 3 (pod-3): DONE, COMPLETE, attempt 90, 0 of 0 parts, 0 B of 0 B (100%), served "
            "after 1,500 ms\n"
            "server 3: not listed any more\n");
}

TEST_F(RecoveryCommandTest, WatchPrintsOneObjectALine) {
  add_blocked(status());
  status();
  admin_.interrupt_after = 3;
  const Outcome watched =
      run({"recovery", "list", "--watch", "--interval", "100ms", "-o", "json"}, true);
  EXPECT_EQ(watched.code, kExitOk);
  std::istringstream lines(watched.out);
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_EQ(json::parse(first)["server_id"], 3);
  EXPECT_EQ(json::parse(second), json::parse(R"({"server_id": 3, "listed": false})"));
  EXPECT_FALSE(std::getline(lines, third));
}

TEST_F(RecoveryCommandTest, OnATerminalWatchDrawsBars) {
  auto& now = status();
  add_blocked(now);
  for (uint64_t id = 10; id < 20; ++id) add_ended(now, id, "COMPLETE");
  admin_.interrupt_after = 2;
  const Outcome watched = run({"recovery", "list", "--watch", "--interval", "100ms"}, true);
  EXPECT_EQ(watched.code, kExitOk);
  EXPECT_THAT(watched.out, StartsWith("\x1b[2J\x1b[H1 not done, 10 ended; Ctrl-C ends\x1b[K\n"));
  EXPECT_THAT(watched.out,
              HasSubstr("server 3 (pod-3)  [#######.......................]  25%  BLOCKED, 1 of 4 "
                        "parts; waits for the volume of server 5\x1b[K\n"));
  EXPECT_THAT(watched.out, HasSubstr("server 19 (pod-19)  [##############################] 100%"));
  EXPECT_THAT(watched.out, HasSubstr("server 15 "));
  EXPECT_THAT(watched.out, Not(HasSubstr("server 14 "))) << "only the latest that ended";
  const auto again = watched.out.find("\x1b[H1 not done", 10);
  EXPECT_NE(again, std::string::npos) << "the second picture is drawn over the first";
}

TEST_F(RecoveryCommandTest, WatchGoesOnWhileNobodyLeads) {
  add_blocked(status());
  admin_.refused = {1, 2};
  status();
  status();
  status();
  admin_.interrupt_after = 4;
  const Outcome watched = run({"recovery", "list", "--watch", "--interval", "100ms"});
  EXPECT_EQ(watched.code, kExitOk);
  EXPECT_THAT(watched.out, HasSubstr("server 3: not listed any more\n"));
  EXPECT_THAT(watched.err, HasSubstr("asking again"));
  EXPECT_EQ(std::ranges::count(watched.err, '\n'), 1) << "once, not each time: " << watched.err;
}

TEST_F(RecoveryCommandTest, WatchEndsWhenTheFirstAnswerIsARefusal) {
  status();
  admin_.refused = {0};
  EXPECT_EQ(run({"recovery", "list", "--watch"}).code, kExitUnavailable);
  const Outcome alone = run({"recovery", "list", "--interval", "1s"});
  EXPECT_EQ(alone.code, kExitUsage);
  EXPECT_THAT(alone.err, HasSubstr("--watch"));
  const Outcome quick = run({"recovery", "list", "--watch", "--interval", "1ms"});
  EXPECT_THAT(quick.err, HasSubstr("interval '1ms': accepted are 100ms to 1h"));
}

TEST_F(RecoveryCommandTest, ARestoredInterruptDoesWhatItDidBefore) {
  status();
  admin_.interrupt_after = 1;
  struct sigaction before{}, after{};
  sigaction(SIGINT, nullptr, &before);
  EXPECT_EQ(run({"recovery", "list", "--watch"}).code, kExitOk);
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST_F(RecoveryCommandTest, TheStatusTellsHowManyServersMayFail) {
  status().set_survives_servers(2);
  EXPECT_EQ(run_json({"status"})["survives_servers"], 2);
  EXPECT_THAT(run({"status"}).out,
              HasSubstr("\nsurvives     the failure of 2 more servers, whichever they are\n"));
  admin_.statuses.back().set_survives_servers(1);
  EXPECT_THAT(run({"status"}).out, HasSubstr("the failure of 1 more server, whichever it is\n"));
  admin_.statuses.back().clear_survives_servers();
  EXPECT_TRUE(run_json({"status"}).at("survives_servers").is_null());
  EXPECT_THAT(run({"status"}).out, HasSubstr("\nsurvives     not known\n"));
}

}  // namespace
}  // namespace ramcloud::cli
