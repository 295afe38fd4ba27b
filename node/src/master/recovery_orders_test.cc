// A recovery master: what the coordinator orders, on backups that are made up.
#include "master/recovery_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "log/invariants.h"
#include "log/replay.h"
#include "master/testing/master_fixture.h"
#include "store/invariants.h"
#include "store/testing/dead_log.h"
#include "transport/sim/sim_transport.h"
#include "transport/testing/only_replies.h"

namespace ramcloud::master {
namespace {

using store::testing::kDeadMaster;
using store::testing::object_entry;
using store::testing::tombstone_entry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::HashRange;
using wire::Opcode;
using wire::RecoveryPhase;

constexpr HashRange kAll{1, 0, ~uint64_t{0}};
constexpr uint64_t kSafeVersion = 1000;

class Replies final : public ramcloud::testing::OnlyReplies {
 public:
  struct One {
    StatusCode status;
    std::string body;
  };
  void reply(const ReplyHandle& handle, StatusCode code, std::span<const Slice> slices) override {
    One& one = by_call[handle.call_id];
    one.status = code;
    for (const Slice& slice : slices) {
      one.body.append(static_cast<const char*>(slice.data), slice.size);
    }
  }
  std::map<uint64_t, One> by_call;
};

/// What backups have of the dead log. A group is one entry, and its offset eight times its number.
using DeadLog = std::map<uint64_t, std::vector<std::string>>;  // entries by segment

class FakeBackup {
 public:
  FakeBackup(SimScheduler& sim, SimNetwork& network, uint64_t id, const DeadLog& log)
      : node(sim.add_node("backup" + std::to_string(id))),
        transport(network.make_transport(node)),
        registry(*transport),
        log_(log) {
    transport->set_identity({{}, id});
    registry.add(Opcode::kRecoveryFetch, &call_member<&FakeBackup::fetch, FakeBackup>, this);
    EXPECT_TRUE(transport->listen({node.name(), 1}, Side::kInside, registry).has_value());
  }
  void fetch(const Request& request) {
    wire::RecoveryFetchRequest asked;
    ASSERT_TRUE(request.decode(asked));
    EXPECT_EQ(asked.master_id, kDeadMaster);
    requests.push_back(asked);
    held.push_back({request.reply, asked});
    most_held = std::max(most_held, held.size());
    if (!holds) release();
  }
  void release() {
    for (const auto& [handle, asked] : std::exchange(held, {})) answer(handle, asked);
  }
  void answer(const ReplyHandle& handle, const wire::RecoveryFetchRequest& asked) {
    if (put_off > 0) {
      --put_off;
      return reply_error(*transport, handle, {StatusCode::kRetry, "later"}, 2000);
    }
    if (refuses != StatusCode::kOk) return reply_error(*transport, handle, {refuses, "no"});
    std::string entries;
    uint32_t count = 0, group = asked.offset / 8;
    for (; group < log_.at(asked.segment_id).size() && count < page; ++group) {
      const std::string& entry = log_.at(asked.segment_id)[group];
      if (!wanted(entry, asked.ranges)) continue;
      entries += entry;
      ++count;
    }
    if (damages && !entries.empty()) entries.back() = static_cast<char>(entries.back() ^ 1);
    const wire::RecoveryFetchReply head{static_cast<uint32_t>(entries.size()), count, group * 8, 0};
    const Slice slices[] = {Slice(bytes_of(head)), Slice(entries)};
    transport->reply(handle, StatusCode::kOk, slices);
  }
  static bool wanted(const std::string& entry, const std::vector<HashRange>& ranges) {
    const log::EntryView view = store::testing::view_of(entry);
    const auto object = log::parse_object(view);
    const auto tombstone = log::parse_tombstone(view);
    const uint64_t table = object ? object->table_id : tombstone->table_id;
    const uint64_t hash = log::hash_of_key(
        table, view, object ? log::ObjectView::key_offset : log::TombstoneView::key_offset,
        object ? object->key_length : tombstone->key_length);
    return std::ranges::any_of(ranges,
                               [&](const auto& range) { return range.contains(table, hash); });
  }
  std::vector<uint64_t> segments() const {
    std::vector<uint64_t> ids;
    for (const auto& request : requests) ids.push_back(request.segment_id);
    return ids;
  }

  struct Held {
    ReplyHandle handle;
    wire::RecoveryFetchRequest asked;
  };
  SimNode& node;
  std::unique_ptr<SimTransport> transport;
  ServiceRegistry registry;
  std::vector<wire::RecoveryFetchRequest> requests;
  std::vector<Held> held;
  size_t most_held = 0;
  bool holds = false;  // until release()
  int put_off = 0;     // requests that are answered RETRY
  StatusCode refuses = StatusCode::kOk;
  bool damages = false;  // an entry of each page
  uint32_t page = 3;     // entries

 private:
  const DeadLog& log_;
};

class RecoveryOrdersTest : public testing::MasterFixture<Replies> {
 protected:
  explicit RecoveryOrdersTest(uint32_t segments = 16, bool durable_at_once = true)
      : MasterFixture(segments, durable_at_once) {
    node_.reactor().set_epochs(&participant_);
    tablets_.attach(store_);
    wire::ServerList list{1, 1, std::vector<wire::ServerListEntry>(3)};
    for (uint64_t id = 1; id <= 3; ++id) {
      list.servers[id - 1].server_id = id;
      list.servers[id - 1].locator = "sim:host=backup" + std::to_string(id) + ",port=1";
      backups_.push_back(std::make_unique<FakeBackup>(sim_, network_, id, dead_));
    }
    EXPECT_TRUE(servers_.apply(list).ok());
  }
  ~RecoveryOrdersTest() override { node_.reactor().set_epochs(nullptr); }

  // ---- orders

  template <typename Message>
  uint64_t post(Opcode opcode, const Message& message) {
    return MasterFixture::send(opcode, wire::encode(message, wire::kVersionMax));
  }
  template <typename Message>
  Replies::One ask(Opcode opcode, const Message& message) {
    const uint64_t call = post(opcode, message);
    EXPECT_TRUE(run_until([&] { return transport_.by_call.contains(call); }));
    return transport_.by_call[call];
  }
  template <typename Message>
  StatusCode order(Opcode opcode, const Message& message) {
    return ask(opcode, message).status;
  }
  wire::RecoverRequest part(uint64_t attempt, const std::vector<HashRange>& ranges = {kAll}) {
    wire::RecoverRequest request;
    request.term = 1;
    request.master_id = kDeadMaster;
    request.attempt = attempt;
    request.safe_version = kSafeVersion;
    for (const HashRange& range : ranges) {
      request.tablets.push_back({range, 0, "table" + std::to_string(range.table_id)});
    }
    for (const auto& [id, entries] : dead_) {
      wire::RecoverySegment segment{id, static_cast<uint32_t>(8 * entries.size()), {}};
      for (uint64_t backup = 1; backup <= 3; ++backup) segment.sources.push_back({backup, 5});
      request.segments.push_back(std::move(segment));
    }
    std::ranges::reverse(request.segments);
    return request;
  }
  StatusCode recover(const wire::RecoverRequest& request) {
    return order(Opcode::kRecover, request);
  }
  StatusCode serve(uint64_t attempt, const std::vector<HashRange>& ranges = {kAll},
                   uint64_t revision = 5) {
    return order(Opcode::kServeRecovered,
                 wire::ServeRecoveredRequest{1, revision, attempt, ranges});
  }
  StatusCode abort(uint64_t attempt) {
    return order(Opcode::kAbortRecovery, wire::AbortRecoveryRequest{1, kDeadMaster, attempt});
  }
  StatusCode drop(uint64_t table, uint64_t revision = 9) {
    return order(Opcode::kDropTablet, wire::DropTabletRequest{1, revision, table});
  }
  /// Nothing: NOT_FOUND.
  std::optional<wire::RecoveryState> state(uint64_t attempt) {
    const auto reply = ask(Opcode::kGetRecoveryState,
                           wire::GetRecoveryStateRequest{1, kDeadMaster, attempt, {}, 0});
    if (reply.status == StatusCode::kNotFound) return std::nullopt;
    EXPECT_EQ(reply.status, StatusCode::kOk);
    wire::RecoveryState state;
    EXPECT_TRUE(wire::decode(reply.body, wire::kVersionMax, state));
    return state;
  }
  bool reaches(uint64_t attempt, RecoveryPhase phase) {
    for (int i = 0; i < 2000; ++i) {
      const auto now = state(attempt);
      if (!now) return false;
      if (now->phase == phase) return true;
      run_for(10ms);
    }
    return false;
  }
  bool run_until(const std::function<bool()>& done) { return sim_.run_until(done, 100s); }
  void run_for(Duration duration) { sim_.run_for(duration); }

  // ---- what is there

  std::optional<std::string> read(const std::string& key, uint64_t table = 1) {
    store::ReadResult result;
    if (store_.read(table, key, {}, result) != StatusCode::kOk) return std::nullopt;
    std::string value(result.value_length, '\0');
    result.entry.read(result.value_offset, value.data(), result.value_length);
    return value;
  }
  StatusCode read_status(const std::string& key, uint64_t table = 1) {
    store::ReadResult result;
    return store_.read(table, key, {}, result);
  }
  uint64_t write(const std::string& key) {
    uint64_t version = 0;
    log::LogPosition depends_on;
    EXPECT_EQ(store_.write(1, key, "value", {}, version, depends_on), StatusCode::kOk);
    parts_.replicator.finish_all();
    return version;
  }
  /// Nothing of any recovery is left, but in the log.
  bool nothing_is_left() {
    return run_until([&] { return store_.tablets().empty() && store_.table().entries() == 0; });
  }
  uint32_t side_segments() {
    const auto all = parts_.log.segments();
    return static_cast<uint32_t>(std::ranges::count_if(all, &log::Segment::side));
  }
  void expect_invariants() { EXPECT_THAT(store::Invariants(store_).check(), IsEmpty()); }
  /// Objects that a recovery of this master finds in its own log, from that position on.
  std::map<std::string, uint64_t> own_log(uint64_t position) {
    store::testing::Model none;
    log::TestLog fresh(16);
    store::ObjectStore target(fresh.log, sim_.clock(), {});
    store::TabletReplay replay(target, 1);
    EXPECT_TRUE(replay.begin({1, 0, ~uint64_t{0}}, 0).ok());
    std::map<std::string, uint64_t> found;
    for (const log::Segment* segment : parts_.log.segments()) {
      if (log::LogPosition(segment->id(), 0).value < position) continue;
      const std::string image = log::image_of(*segment);
      log::scan_segment(
          segment->identity(), log::SegmentBytes(image), {}, [&](const log::GroupView& group) {
            for (auto e = group.first(); e; e = group.next(*e)) {
              const auto type = e->view.type();
              if (type != log::EntryType::kObject && type != log::EntryType::kTombstone) {
                continue;
              }
              EXPECT_EQ(replay.replay(e->view), StatusCode::kOk);
            }
          });
    }
    EXPECT_TRUE(replay.serve({1, 0, ~uint64_t{0}}));
    std::vector<log::ObjectView> page(1000);
    store::EnumerateResult result;
    EXPECT_EQ(target.enumerate(1, 0, 0, {.max_bytes = 64 << 20}, page, result), StatusCode::kOk);
    for (uint32_t i = 0; i < result.count; ++i) {
      std::string key(page[i].key_length, '\0');
      page[i].entry.read(page[i].key_offset, key.data(), page[i].key_length);
      found[key] = page[i].version;
    }
    (void)replay.side().release();
    return found;
  }

  DeadLog dead_;
  SimNetwork network_{sim_};
  std::unique_ptr<SimTransport> client_ = network_.make_transport(node_);
  RpcClient rpc_{node_.reactor(), *client_};
  ServerList servers_;
  Epochs epochs_;
  Epochs::Participant participant_{epochs_};
  TabletService tablets_{registry_, node_.reactor(), replies_, servers_, epochs_};
  RecoveryOrders orders_{registry_, rpc_, servers_, epochs_, tablets_, metrics_, store_};
  std::vector<std::unique_ptr<FakeBackup>> backups_;
};

TEST_F(RecoveryOrdersTest, WhatADeadMasterHadIsServed) {
  dead_[3] = {object_entry(1, "a", "old"), object_entry(2, "b", "gone"), object_entry(3, "c", "c")};
  dead_[4] = {object_entry(7, "a", "new"), tombstone_entry(1, "a"), tombstone_entry(2, "b"),
              object_entry(9, "d", "d")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->segments_done, 2u);
  EXPECT_EQ(state(7)->objects, 3u);
  EXPECT_GT(state(7)->bytes_fetched, 0u);
  EXPECT_EQ(state(7)->creation_position, 0u) << "it was never here";
  EXPECT_EQ(read_status("a"), StatusCode::kUnknownTablet) << "before the coordinator's word";
  EXPECT_EQ(backups_[0]->requests.front().segment_id, 4u) << "newest first";
  EXPECT_EQ(backups_[0]->requests.front().frame, 5u);
  expect_invariants();

  ASSERT_EQ(serve(7), StatusCode::kOk);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kServing);
  EXPECT_EQ(read("a"), "new");
  EXPECT_EQ(read_status("b"), StatusCode::kNotFound);
  EXPECT_EQ(read("c"), "c");
  EXPECT_EQ(read("d"), "d");
  EXPECT_GE(write("b"), kSafeVersion);
  EXPECT_TRUE(run_until([&] { return store_.table().entries() == 4; })) << "tombstones are swept";
  expect_invariants();
  const auto tables = tablets_.restate();
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].name, "table1");
  EXPECT_EQ(tables[0].revision, 5u);
  EXPECT_EQ(tables[0].tablets.size(), 1u);
  EXPECT_THAT(metrics_.text(), HasSubstr("ramcloud_recovery_parts_total{outcome=\"served\"} 1"));
}

TEST_F(RecoveryOrdersTest, OrdersThatComeAgainChangeNothing) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kReady);
  ASSERT_EQ(serve(7), StatusCode::kOk);
  const uint64_t version = write("a");
  EXPECT_EQ(serve(7), StatusCode::kOk);
  EXPECT_EQ(recover(part(7)), StatusCode::kOk);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kServing);
  EXPECT_EQ(abort(7), StatusCode::kOk) << "what is served stays";
  run_for(1s);
  EXPECT_EQ(serve(7), StatusCode::kOk);
  store::ReadResult result;
  ASSERT_EQ(store_.read(1, "a", {}, result), StatusCode::kOk);
  EXPECT_EQ(result.version, version);
  EXPECT_EQ(backups_[0]->requests.size(), 1u);
}

TEST_F(RecoveryOrdersTest, OutdatedOrdersAreRefused) {
  ASSERT_TRUE(servers_.check_term(1).ok());
  EXPECT_EQ(state(7), std::nullopt);
  EXPECT_EQ(serve(7), StatusCode::kNotFound);
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  EXPECT_EQ(recover(part(6, {{2, 0, 9}})), StatusCode::kStaleTerm);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(serve(6), StatusCode::kNotFound) << "of another attempt";
  EXPECT_EQ(serve(7, {{1, 0, 9}}), StatusCode::kNotFound) << "another range";
  ASSERT_EQ(abort(8), StatusCode::kOk);
  EXPECT_EQ(state(7), std::nullopt);
  EXPECT_EQ(serve(7), StatusCode::kNotFound);
  EXPECT_EQ(recover(part(7)), StatusCode::kStaleTerm) << "late, and over";
  EXPECT_EQ(recover(part(8)), StatusCode::kStaleTerm) << "given up before it came";
  EXPECT_TRUE(nothing_is_left());
  ASSERT_EQ(recover(part(9)), StatusCode::kOk);
  ASSERT_TRUE(servers_.check_term(2).ok());
  auto late = part(10);
  EXPECT_EQ(recover(late), StatusCode::kStaleTerm);
  EXPECT_EQ(serve(9), StatusCode::kStaleTerm);
  EXPECT_EQ(abort(9), StatusCode::kStaleTerm);
}

TEST_F(RecoveryOrdersTest, OrdersThatCanNeverWorkSayWhy) {
  EXPECT_EQ(order(Opcode::kRecover, wire::Empty{}), StatusCode::kInvalidArgument);
  EXPECT_EQ(order(Opcode::kServeRecovered, wire::Empty{}), StatusCode::kInvalidArgument);
  EXPECT_EQ(order(Opcode::kAbortRecovery, wire::Empty{}), StatusCode::kInvalidArgument);
  EXPECT_EQ(order(Opcode::kGetRecoveryState, wire::Empty{}), StatusCode::kInvalidArgument);
  const auto why = [&](const wire::RecoverRequest& request) {
    const auto reply = ask(Opcode::kRecover, request);
    EXPECT_EQ(reply.status, StatusCode::kInvalidArgument);
    return reply.body;
  };
  EXPECT_THAT(why(part(0)), HasSubstr("attempt is 0"));
  EXPECT_THAT(why(part(1, {})), HasSubstr("tablets is empty"));
  EXPECT_THAT(why(part(1, {{1, 9, 8}})), HasSubstr("[9, 8] of table 1"));
  EXPECT_THAT(why(part(1, {{1, 5, 9}, {2, 0, 9}, {1, 0, 5}})), HasSubstr("overlap"));
  EXPECT_EQ(serve(1, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(serve(1, {{1, 0, 9}, {2, 0, 9}}), StatusCode::kNotFound);
  ASSERT_EQ(recover(part(1, {{1, 0, 9}, {2, 0, 9}})), StatusCode::kOk);
  ASSERT_TRUE(reaches(1, RecoveryPhase::kReady));
  EXPECT_EQ(serve(1, {{1, 0, 9}, {2, 0, 9}}), StatusCode::kInvalidArgument) << "of two tables";
}

TEST_F(RecoveryOrdersTest, TheStateIsToldWhenItChanges) {
  dead_[3] = {object_entry(1, "a", "1")};
  backups_[0]->holds = true;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  wire::GetRecoveryStateRequest asked{1, kDeadMaster, 7, RecoveryPhase::kReplaying, 60'000};
  const uint64_t first = post(Opcode::kGetRecoveryState, asked);
  run_for(900ms);
  EXPECT_FALSE(transport_.by_call.contains(first));
  run_for(200ms);
  EXPECT_TRUE(transport_.by_call.contains(first)) << "after a second at most";
  const uint64_t second = post(Opcode::kGetRecoveryState, asked);
  run_for(10ms);
  backups_[0]->holds = false;
  backups_[0]->release();
  run_for(10ms);
  EXPECT_TRUE(transport_.by_call.contains(second)) << "at once";
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  asked.known = RecoveryPhase::kReady;
  const uint64_t third = post(Opcode::kGetRecoveryState, asked);
  run_for(10ms);
  ASSERT_EQ(abort(7), StatusCode::kOk);
  run_for(10ms);
  ASSERT_TRUE(transport_.by_call.contains(third));
  EXPECT_EQ(transport_.by_call[third].status, StatusCode::kNotFound);
}

TEST_F(RecoveryOrdersTest, AHigherAttemptGivesUpWhatIsNotServed) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}}, kThird{3, 0, ~uint64_t{0}};
  dead_[3] = {object_entry(1, "a", "1"), object_entry(1, "a", "2", 2),
              object_entry(1, "a", "3", 3)};
  ASSERT_EQ(recover(part(7, {kAll, kOther, kThird})), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_EQ(serve(7, {kThird}), StatusCode::kOk);
  const StatusCode first = recover(part(9, {kOther}));
  EXPECT_EQ(first, StatusCode::kRetry) << "it is given up first";
  EXPECT_EQ(serve(7, {kOther}), StatusCode::kNotFound);
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 2; }));
  ASSERT_EQ(recover(part(9, {kOther})), StatusCode::kOk);
  EXPECT_EQ(serve(7, {kAll}), StatusCode::kOk) << "of other ranges, which the metadata gave us";
  ASSERT_TRUE(reaches(9, RecoveryPhase::kReady));
  EXPECT_GT(state(9)->creation_position, 0u) << "entries of the former attempt are in the log";
  ASSERT_EQ(serve(9, {kOther}), StatusCode::kOk);
  EXPECT_EQ(read("a"), "1");
  EXPECT_EQ(read("a", 2), "2");
  EXPECT_EQ(read("a", 3), "3");
  expect_invariants();
}

TEST_F(RecoveryOrdersTest, AnAttemptThatStillFetchesIsGivenUp) {
  dead_[3] = {object_entry(1, "a", "1")};
  backups_[0]->holds = true;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(run_until([&] { return backups_[0]->requests.size() == 1; }));
  EXPECT_EQ(recover(part(8)), StatusCode::kRetry);
  EXPECT_EQ(state(7), std::nullopt);
  ASSERT_TRUE(nothing_is_left());
  backups_[0]->holds = false;
  ASSERT_EQ(recover(part(8)), StatusCode::kOk);
  ASSERT_TRUE(reaches(8, RecoveryPhase::kReady)) << "others may fetch";
  backups_[0]->release();  // too late
  run_for(1s);
  ASSERT_EQ(serve(8), StatusCode::kOk);
  EXPECT_EQ(read("a"), "1");
}

TEST_F(RecoveryOrdersTest, ADroppedTableIsGivenUp) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}};
  dead_[3] = {object_entry(1, "a", "1"), object_entry(1, "a", "2", 2)};
  ASSERT_EQ(recover(part(7, {kAll, kOther})), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_EQ(drop(2), StatusCode::kOk);
  EXPECT_EQ(serve(7, {kOther}, 8), StatusCode::kNotFound);
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 1; }));
  EXPECT_EQ(serve(7), StatusCode::kOk) << "the other one stays";
  EXPECT_EQ(read("a"), "1");
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kServing);

  ASSERT_EQ(recover(part(8, {{3, 0, 9}})), StatusCode::kOk);
  ASSERT_EQ(drop(3), StatusCode::kOk);
  EXPECT_EQ(state(8), std::nullopt);
  EXPECT_EQ(serve(7, {kAll}, 4), StatusCode::kStaleTerm) << "an older order about the table";
  expect_invariants();
}

// ---- sources

TEST_F(RecoveryOrdersTest, EachSourceIsTriedInTurn) {
  for (int i = 0; i < 10; ++i) dead_[3].push_back(object_entry(1, std::to_string(i), "v"));
  backups_[0]->refuses = StatusCode::kCorrupt;
  backups_[1]->damages = true;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->objects, 10u);
  EXPECT_EQ(backups_[0]->requests.size(), 1u);
  EXPECT_EQ(backups_[1]->requests.size(), 1u);
  EXPECT_EQ(backups_[2]->requests.size(), 4u) << "all pages from the one that has them";
}

TEST_F(RecoveryOrdersTest, ASourceThatIsNotUpIsNotAsked) {
  dead_[3] = {object_entry(1, "a", "1")};
  auto request = part(7);
  request.segments[0].sources = {{77, 0}, {2, 0}};
  ASSERT_EQ(recover(request), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(state(7)->objects, 1u);
}

TEST_F(RecoveryOrdersTest, ASourceMayPutAFetchOff) {
  dead_[3] = {object_entry(1, "a", "1")};
  backups_[0]->put_off = 20;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(backups_[0]->requests.size(), 21u);
  EXPECT_THAT(backups_[1]->requests, IsEmpty()) << "putting off is no failure";
}

TEST_F(RecoveryOrdersTest, WithoutASourceThePartFailsAndNamesTheSegment) {
  dead_[3] = {object_entry(1, "a", "1")};
  dead_[4] = {object_entry(1, "b", "1")};
  auto request = part(7);
  request.segments[1].sources.clear();
  ASSERT_EQ(recover(request), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kFailed));
  EXPECT_EQ(state(7)->segment, 3u);
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kNotFound));
  EXPECT_THAT(state(7)->why, HasSubstr("segment 3 of master 99"));
  EXPECT_TRUE(store_.tablets().empty()) << "it has nothing of it any more";
  EXPECT_EQ(store_.table().entries(), 0u);
  EXPECT_EQ(recover(request), StatusCode::kOk) << "the same answer again";
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kFailed);
  EXPECT_EQ(serve(7), StatusCode::kNotFound);

  for (auto& backup : backups_) backup->refuses = StatusCode::kIoError;
  ASSERT_EQ(recover(part(8)), StatusCode::kOk);
  ASSERT_TRUE(reaches(8, RecoveryPhase::kFailed));
  EXPECT_EQ(state(8)->status, static_cast<uint16_t>(StatusCode::kIoError));
  EXPECT_GT(backups_[2]->requests.size(), 1u) << "tried more than once";
  ASSERT_EQ(abort(8), StatusCode::kOk);
  EXPECT_EQ(state(8), std::nullopt);
  EXPECT_THAT(metrics_.text(), HasSubstr("ramcloud_recovery_parts_total{outcome=\"failed\"} 2"));
}

TEST_F(RecoveryOrdersTest, SegmentsFromBeforeTheTabletAreNotAskedForIt) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}};
  dead_[3] = {object_entry(8, "a", "former time"), object_entry(1, "b", "b", 2)};
  dead_[4] = {object_entry(2, "b", "b", 2)};
  dead_[5] = {object_entry(1, "a", "a")};
  auto request = part(7, {kAll, kOther});
  request.tablets[0].creation_position = log::LogPosition(5, 0).value;
  request.tablets[1].creation_position = log::LogPosition(4, 0).value;
  ASSERT_EQ(recover(request), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_THAT(backups_[0]->segments(), ElementsAre(5, 4)) << "nobody's stands in segment 3";
  EXPECT_EQ(backups_[0]->requests[0].ranges.size(), 2u);
  ASSERT_EQ(backups_[0]->requests[1].ranges.size(), 1u);
  EXPECT_EQ(backups_[0]->requests[1].ranges[0].table_id, 2u);
  EXPECT_EQ(state(7)->segments_done, 3u);
  ASSERT_EQ(serve(7, {kAll}), StatusCode::kOk);
  EXPECT_EQ(read("a"), "a");
}

TEST_F(RecoveryOrdersTest, SeveralFetchesAreOutAndNoMore) {
  for (uint64_t segment = 1; segment <= 30; ++segment) {
    dead_[segment] = {object_entry(segment, "a", "1")};
  }
  backups_[0]->holds = true;
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_EQ(recover(part(8, {{2, 0, 9}})), StatusCode::kOk);
  run_for(100ms);
  EXPECT_EQ(backups_[0]->most_held, TabletRecovery::kFetches) << "of all parts together";
  EXPECT_THAT(backups_[0]->segments(), ElementsAre(30, 29, 28, 27, 26, 25, 24, 23));
  EXPECT_LE(backups_[0]->requests[0].max_bytes * TabletRecovery::kFetches, 16u << 20);
  backups_[0]->holds = false;
  backups_[0]->release();
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_TRUE(reaches(8, RecoveryPhase::kReady));
}

// ---- versions, the log

TEST_F(RecoveryOrdersTest, AnEmptyPartRaisesTheSafeVersionToo) {
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  log::Replay replay(log::kTestCluster, log::kTestMaster);
  std::vector<std::string> images;
  images.reserve(16);
  for (const log::Segment* segment : parts_.log.segments()) {
    images.push_back(log::image_of(*segment));
    log::ReplicaImage image;
    image.segment_id = segment->id();
    image.bytes = images.back();
    replay.add(std::move(image));
  }
  ASSERT_TRUE(replay.run().ok());
  EXPECT_GE(replay.report().safe_version, kSafeVersion) << "the log says so itself";
  ASSERT_EQ(serve(7), StatusCode::kOk);
  EXPECT_GE(write("deleted there"), kSafeVersion);
}

TEST_F(RecoveryOrdersTest, GivenUpAfterTheCommitItLeavesTheLog) {
  dead_[3] = {object_entry(5, "deleted elsewhere later", "1"), object_entry(5, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_EQ(side_segments(), 1u);
  const uint64_t groups = parts_.log.statistics().appended_groups;
  ASSERT_EQ(abort(7), StatusCode::kOk);
  ASSERT_TRUE(nothing_is_left());
  ASSERT_TRUE(run_until([&] { return side_segments() == 0; }));
  EXPECT_EQ(parts_.log.statistics().appended_groups, groups) << "no tombstones";
  EXPECT_TRUE(run_until([&] { return !parts_.log.take_retired().empty(); }));

  // The tablet was elsewhere meanwhile, and comes back.
  dead_[3] = {object_entry(5, "a", "1")};
  ASSERT_EQ(recover(part(8)), StatusCode::kOk);
  ASSERT_TRUE(reaches(8, RecoveryPhase::kReady));
  const uint64_t position = state(8)->creation_position;
  EXPECT_GT(position, 0u);
  ASSERT_EQ(serve(8), StatusCode::kOk);
  EXPECT_EQ(read("a"), "1");
  EXPECT_EQ(read_status("deleted elsewhere later"), StatusCode::kNotFound);
  EXPECT_THAT(own_log(position), ElementsAre(std::pair("a", 5)));
  EXPECT_THAT(own_log(0), ElementsAre(std::pair("a", 5)));
  expect_invariants();
}

/// What stays of it in the log, because others of its part are served, is below the position.
TEST_F(RecoveryOrdersTest, OldEntriesOfAPartThatIsServedDoNotComeBack) {
  constexpr HashRange kOther{2, 0, ~uint64_t{0}};
  dead_[3] = {object_entry(5, "deleted elsewhere later", "1"), object_entry(5, "b", "1", 2)};
  backups_[0]->page = 1;
  backups_[0]->holds = true;
  ASSERT_EQ(recover(part(7, {kAll, kOther})), StatusCode::kOk);
  ASSERT_TRUE(run_until([&] { return !backups_[0]->held.empty(); }));
  backups_[0]->release();
  // The first page is in a side segment, which is not part of the log yet.
  ASSERT_TRUE(run_until([&] { return store_.table().entries() == 1; }));
  dead_[4] = {object_entry(6, "a", "1")};
  EXPECT_EQ(recover(part(8)), StatusCode::kRetry);
  ASSERT_TRUE(run_until([&] { return store_.tablets().size() == 1; }));
  backups_[0]->holds = false;
  auto request = part(8);
  request.segments.pop_back();  // the dead log has only segment 4 of it now
  ASSERT_EQ(recover(request), StatusCode::kOk);
  run_for(10ms);
  backups_[0]->release();
  ASSERT_TRUE(reaches(7, RecoveryPhase::kReady));
  ASSERT_TRUE(reaches(8, RecoveryPhase::kReady));
  ASSERT_EQ(serve(7, {kOther}), StatusCode::kOk);
  ASSERT_EQ(serve(8), StatusCode::kOk);
  EXPECT_THAT(own_log(state(8)->creation_position), ElementsAre(std::pair("a", 6)));
  expect_invariants();
}

class ShortOfMemory : public RecoveryOrdersTest {
 protected:
  ShortOfMemory() : RecoveryOrdersTest(4) {}
};

TEST_F(ShortOfMemory, ThePartFailsAndTheServerServesOn) {
  own_table(5);
  for (int i = 0; i < 40; ++i) {
    dead_[3].push_back(object_entry(1, std::to_string(i), std::string(1 << 20, 'x')));
  }
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kFailed));
  EXPECT_EQ(state(7)->status, static_cast<uint16_t>(StatusCode::kOutOfMemory));
  EXPECT_EQ(state(7)->segment, 0u) << "the sources are not to blame";
  EXPECT_EQ(store_.table().entries(), 0u);
  parts_.log.reclaim(parts_.log.take_retired());
  EXPECT_EQ(parts_.log.statistics().free_segments, 3u);
  uint64_t version = 0;
  log::LogPosition depends_on;
  EXPECT_EQ(store_.write(5, "key", "value", {}, version, depends_on), StatusCode::kOk);
  expect_invariants();
}

/// Nothing is durable before the test says so.
class NotDurable : public RecoveryOrdersTest {
 protected:
  NotDurable() : RecoveryOrdersTest(16, false) {}
};

TEST_F(NotDurable, ReadyMeansThatItIsDurableAndPartOfTheLog) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kCommitting));
  run_for(1s);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kCommitting) << "the side segment is on no backup";
  EXPECT_EQ(serve(7), StatusCode::kRetry);
  EXPECT_EQ(read_status("a"), StatusCode::kUnknownTablet);
  const uint64_t side = parts_.log.others().front()->id();
  parts_.replicator.finish_open(side);
  parts_.replicator.finish_close(side);
  run_for(1s);
  EXPECT_EQ(state(7)->phase, RecoveryPhase::kCommitting) << "no digest names it yet";
  EXPECT_EQ(serve(7), StatusCode::kRetry);
  parts_.replicator.finish_all();
  EXPECT_TRUE(reaches(7, RecoveryPhase::kReady));
  EXPECT_EQ(side_segments(), 1u);
}

TEST_F(NotDurable, GivenUpWhileItWaitsItIsNeverPartOfTheLog) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kCommitting));
  ASSERT_EQ(abort(7), StatusCode::kOk);
  ASSERT_TRUE(nothing_is_left());
  ASSERT_TRUE(run_until([&] { return !parts_.log.take_retired().empty(); }));
  parts_.replicator.finish_all();
  EXPECT_EQ(side_segments(), 0u);
}

TEST_F(NotDurable, GivenUpWhileADigestHasItItLeavesAfterwards) {
  dead_[3] = {object_entry(1, "a", "1")};
  ASSERT_EQ(recover(part(7)), StatusCode::kOk);
  ASSERT_TRUE(reaches(7, RecoveryPhase::kCommitting));
  const uint64_t side = parts_.log.others().front()->id();
  parts_.replicator.finish_open(side);
  parts_.replicator.finish_close(side);
  ASSERT_TRUE(run_until([&] { return side_segments() == 1; })) << "a digest names it";
  ASSERT_EQ(abort(7), StatusCode::kOk);
  ASSERT_TRUE(nothing_is_left());
  run_for(1s);
  EXPECT_EQ(side_segments(), 1u) << "a crash may have it already";
  EXPECT_TRUE(run_until([&] {
    parts_.replicator.finish_all();
    return side_segments() == 0;
  }));
  expect_invariants();
}

}  // namespace
}  // namespace ramcloud::master
