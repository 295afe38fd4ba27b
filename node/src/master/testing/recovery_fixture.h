// For tests of a recovery master: a master's services, and fake backups.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "log/group_reader.h"
#include "master/recovery_orders.h"
#include "master/testing/master_fixture.h"
#include "store/invariants.h"
#include "store/testing/dead_log.h"
#include "transport/sim/sim_transport.h"
#include "transport/testing/recorded_replies.h"

namespace ramcloud::master::testing {

inline constexpr wire::HashRange kWholeTable{1, 0, ~uint64_t{0}};
inline constexpr uint64_t kDeadSafeVersion = 1000;

/// The dead log as the backups have it. Each group has one entry; its offset is eight times its
/// number.
using DeadLog = std::map<uint64_t, std::vector<std::string>>;  // entries by segment

class FakeBackup {
 public:
  FakeBackup(SimScheduler& sim, SimNetwork& network, uint64_t id, const DeadLog& log)
      : node(sim.add_node("backup" + std::to_string(id))),
        transport(network.make_transport(node)),
        registry(*transport),
        log_(log) {
    transport->set_identity({{}, id});
    registry.add(wire::Opcode::kRecoveryFetch, &call_member<&FakeBackup::fetch, FakeBackup>, this);
    EXPECT_TRUE(transport->listen({node.name(), 1}, Side::kInside, registry).has_value());
  }
  void fetch(const Request& request) {
    wire::RecoveryFetchRequest asked;
    ASSERT_TRUE(request.decode(asked));
    EXPECT_EQ(asked.master_id, store::testing::kDeadMaster);
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
    const uint32_t next = group * 8;
    uint32_t further = 0;
    for (; next == asked.end && further < std::min(adds, asked.further.size()); ++further) {
      EXPECT_EQ(asked.further[further].frame, 5u);
      const auto& segment = log_.at(asked.further[further].segment_id);
      EXPECT_EQ(asked.further[further].end, 8 * segment.size());
      for (const std::string& entry : segment) {
        if (!wanted(entry, asked.ranges)) continue;
        entries += entry;
        ++count;
      }
    }
    if (damages && !entries.empty()) entries.back() = static_cast<char>(entries.back() ^ 1);
    added += further;
    const wire::RecoveryFetchReply head{static_cast<uint32_t>(entries.size()), count, next,
                                        further + claims};
    const Slice slices[] = {Slice(bytes_of(head)), Slice(entries)};
    transport->reply(handle, StatusCode::kOk, slices);
  }
  static bool wanted(const std::string& entry, const std::vector<wire::HashRange>& ranges) {
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
  bool damages = false;  // an entry one entry of each page
  uint32_t page = 3;     // entries
  size_t adds = 0;       // further segments to a page
  size_t added = 0;
  uint32_t claims = 0;  // so many more than it added

 private:
  const DeadLog& log_;
};

class RecoveryFixture : public MasterFixture<ramcloud::testing::RecordedReplies> {
 protected:
  explicit RecoveryFixture(uint32_t segments = 16, bool durable_at_once = true,
                           uint32_t cleaner_segments = 0, uint64_t bytes_per_second = 0)
      : MasterFixture(segments, durable_at_once, cleaner_segments),
        orders_(registry_, rpc_, servers_, epochs_, tablets_, metrics_, store_,
                {.bytes_per_second = bytes_per_second}) {
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
  ~RecoveryFixture() override { node_.reactor().set_epochs(nullptr); }

  // ---- orders

  template <typename Message>
  uint64_t post(wire::Opcode opcode, const Message& message) {
    return MasterFixture::send(opcode, wire::encode(message, version_));
  }
  template <typename Message>
  ramcloud::testing::RecordedReplies::Reply ask(wire::Opcode opcode, const Message& message) {
    const uint64_t call = post(opcode, message);
    EXPECT_TRUE(run_until([&] { return transport_.by_call.contains(call); }));
    return transport_.by_call[call];
  }
  template <typename Message>
  StatusCode order(wire::Opcode opcode, const Message& message) {
    return ask(opcode, message).status;
  }
  wire::RecoverRequest part(uint64_t attempt,
                            const std::vector<wire::HashRange>& ranges = {kWholeTable}) {
    wire::RecoverRequest request;
    request.term = 1;
    request.master_id = store::testing::kDeadMaster;
    request.attempt = attempt;
    request.safe_version = kDeadSafeVersion;
    for (const wire::HashRange& range : ranges) {
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
  static wire::RecoverRequest packed(wire::RecoverRequest request) {
    request.packed_segments = wire::pack_segments(std::exchange(request.segments, {}));
    return request;
  }
  StatusCode recover(const wire::RecoverRequest& request) {
    const bool packs = version_ >= wire::kPackedSegments;
    return order(wire::Opcode::kRecover, packs ? packed(request) : request);
  }
  StatusCode serve(uint64_t attempt, const std::vector<wire::HashRange>& ranges = {kWholeTable},
                   uint64_t revision = 5) {
    return order(wire::Opcode::kServeRecovered,
                 wire::ServeRecoveredRequest{1, revision, attempt, ranges});
  }
  StatusCode abort(uint64_t attempt) {
    return order(wire::Opcode::kAbortRecovery,
                 wire::AbortRecoveryRequest{1, store::testing::kDeadMaster, attempt});
  }
  StatusCode drop(uint64_t table, uint64_t revision = 9) {
    return order(wire::Opcode::kDropTablet, wire::DropTabletRequest{1, revision, table});
  }
  /// The state of the attempt; none: NOT_FOUND.
  std::optional<wire::RecoveryState> state(uint64_t attempt) {
    const auto reply =
        ask(wire::Opcode::kGetRecoveryState,
            wire::GetRecoveryStateRequest{1, store::testing::kDeadMaster, attempt, {}, 0});
    if (reply.status == StatusCode::kNotFound) return std::nullopt;
    EXPECT_EQ(reply.status, StatusCode::kOk);
    wire::RecoveryState state;
    EXPECT_TRUE(wire::decode(reply.body, version_, state));
    return state;
  }
  bool reaches(uint64_t attempt, wire::RecoveryPhase phase) {
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
  /// No trace of any recovery is left, except in the log.
  bool nothing_is_left() {
    return run_until([&] { return store_.tablets().empty() && store_.table().entries() == 0; });
  }
  uint32_t side_segments() {
    const auto all = parts_.log.segments();
    return static_cast<uint32_t>(std::ranges::count_if(all, &log::Segment::side));
  }
  void expect_invariants() { EXPECT_THAT(store::Invariants(store_).check(), ::testing::IsEmpty()); }
  /// Objects that a recovery of this master finds in its own log, from that position on.
  std::map<std::string, uint64_t> own_log(uint64_t position) {
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
  RecoveryOrders orders_;
  std::vector<std::unique_ptr<FakeBackup>> backups_;
};

}  // namespace ramcloud::master::testing
