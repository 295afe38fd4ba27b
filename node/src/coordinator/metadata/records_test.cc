#include "coordinator/metadata/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "coordinator/core/testing/fake_cluster.h"
#include "coordinator/metadata/table_writer.h"
#include "wire/testing/filler.h"

namespace ramcloud {
namespace {

using nlohmann::ordered_json;
using testing::FakeCluster;
using wire::testing::filled;
using wire::testing::to_hex;

constexpr const char* kPath = RAMCLOUD_GOLDEN_DIR "/records.json";

template <typename Record>
void add(ordered_json& all, const char* name) {
  const auto record = filled<Record>();
  ordered_json entry;
  for (uint16_t format = kMetadataFormatMin; format <= kMetadataFormatMax; ++format) {
    const std::string bytes = encode_record(record, format);
    Record same;
    EXPECT_TRUE(decode_record(bytes, same)) << name;
    EXPECT_EQ(encode_record(same, format), bytes) << name;
    EXPECT_FALSE(decode_record(bytes.substr(0, bytes.size() - 1), same)) << name;
    entry[std::to_string(format)] = to_hex(bytes);
  }
  all[name] = entry;
}

/// Regenerated with RAMCLOUD_UPDATE_GOLDEN=1, for records and fields that were added. If a byte of
/// an earlier format changes, existing stores cannot be read any more.
TEST(Records, HaveTheBytesOfEachFormat) {
  ordered_json now;
#define RC_ADD(Record) add<Record>(now, #Record)
  RC_ADD(TermRecord);
  RC_ADD(TermOffsetRecord);
  RC_ADD(LeaderRecord);
  RC_ADD(ClusterRecord);
  RC_ADD(RevisionsRecord);
  RC_ADD(RestateRecord);
  RC_ADD(IdsRecord);
  RC_ADD(ServerRecord);
  RC_ADD(ReplicationEpochRecord);
  RC_ADD(AcceptedLossRecord);
  RC_ADD(TableRecord);
  RC_ADD(TabletChunkRecord);
#undef RC_ADD
  std::ifstream in(kPath);
  const auto golden = ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (std::getenv("RAMCLOUD_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(kPath) << now.dump(1) << "\n";
    return;
  }
  ASSERT_TRUE(golden.is_object());
  for (const auto& [name, formats] : golden.items()) {
    for (const auto& [format, hex] : formats.items()) {
      EXPECT_EQ(now[name][format], hex) << name << " in format " << format;
    }
  }
  EXPECT_EQ(golden.size(), now.size()) << "regenerate the file, see above";
}

/// Bytes that a newer coordinator may have added after the present fields.
std::string with_more(std::string bytes, std::string_view more) {
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + kRecordMark.size(), sizeof length);
  length += static_cast<uint32_t>(more.size());
  std::memcpy(bytes.data() + kRecordMark.size(), &length, sizeof length);
  return bytes.append(more);
}

class RecordFormats : public ::testing::Test {
 protected:
  std::string& record(const std::string& key) { return cluster.metadata.records.at(key); }
  std::string& record_or_new(const std::string& key) { return cluster.metadata.records[key]; }
  size_t chunks() {
    return static_cast<size_t>(std::ranges::count_if(cluster.metadata.records, [](const auto& r) {
      return r.first.starts_with(kTablePrefix) && is_tablet_chunk_key(r.first);
    }));
  }
  size_t marked() {
    return static_cast<size_t>(std::ranges::count_if(
        cluster.metadata.records, [](const auto& r) { return r.second.starts_with(kRecordMark); }));
  }
  void restart() {
    cluster.stop_coordinator();
    ASSERT_TRUE(cluster.start_coordinator().ok());
  }
  /// As an earlier version would have written it.
  void downgrade(uint16_t format) {
    cluster.stop_coordinator();
    cluster.invariants = {};
    auto rewrite = [this, format]<typename Record>(const std::string& key, Record r) {
      ASSERT_TRUE(decode_record(record(key), r));
      if constexpr (std::is_same_v<Record, ClusterRecord>) r.format = format;
      record(key) = encode_record(r, format);
    };
    const auto state = read_cluster_state(cluster.metadata.records);
    ASSERT_TRUE(state.has_value());
    std::erase_if(cluster.metadata.records,
                  [](const auto& r) { return r.first.starts_with(kTablePrefix); });
    for (auto [id, table] : state->tables) {
      table.layout = 0;
      record_or_new(table_key(id)) = encode_record(table, format);
    }
    if (format == 1) cluster.metadata.records.erase(kRevisionsKey);
    for (auto& [key, value] : cluster.metadata.records) {
      if (key == kTermKey) rewrite(key, TermRecord());
      if (key == kClusterKey) rewrite(key, ClusterRecord());
      if (key == kIdsKey) rewrite(key, IdsRecord());
      if (key.starts_with(kServerPrefix)) rewrite(key, ServerRecord());
      if (key == kRevisionsKey) rewrite(key, RevisionsRecord());
    }
    if (format == 1) ASSERT_EQ(marked(), 0u);
    ASSERT_TRUE(cluster.start_coordinator().ok());
  }
  FakeCluster cluster;
};

TEST_F(RecordFormats, ANewClusterBeginsWithTheNewestFormat) {
  ASSERT_TRUE(cluster.start_coordinator().ok());
  cluster.add_server();
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  EXPECT_EQ(cluster.coordinator->state().format, kMetadataFormatMax);
  EXPECT_EQ(marked(), cluster.metadata.records.size() - 1) << "all but /cluster";
  ClusterRecord as_former_builds_read_it;
  ASSERT_TRUE(wire::decode(record(kClusterKey), 1, as_former_builds_read_it));
  EXPECT_EQ(as_former_builds_read_it.format, 3);
}

/// In a rolling upgrade a coordinator of the earlier version may have to take over again.
TEST_F(RecordFormats, AStoreOfAFormerFormatStaysSoUntilItIsUpgraded) {
  ASSERT_TRUE(cluster.start_coordinator().ok());
  cluster.add_server();
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  downgrade(1);
  ASSERT_TRUE(cluster.create("u", 1).has_value());
  cluster.add_server();
  restart();
  EXPECT_EQ(marked(), 0u);

  const auto upgraded =
      cluster.wait_for(cluster.coordinator->upgrade_metadata(cluster.reactor.now() + 30s));
  ASSERT_TRUE(upgraded.has_value());
  EXPECT_EQ(*upgraded, 3);
  ASSERT_TRUE(cluster.create("v", 1).has_value());
  EXPECT_GT(marked(), 0u);
  restart();  // from records of both formats
  EXPECT_EQ(cluster.coordinator->state().format, 3);
  EXPECT_EQ(cluster.coordinator->state().tables.size(), 3u);
  EXPECT_EQ(cluster.coordinator->state().servers.size(), 2u);
  EXPECT_TRUE(cluster.drop("t").has_value());
}

/// The tablets of tables in an earlier format stay in the tables' records until they change.
TEST_F(RecordFormats, TabletsAreInChunksOnceTheMetadataIsUpgraded) {
  for (const uint16_t format : {uint16_t{1}, uint16_t{2}}) {
    SCOPED_TRACE(format);
    FakeCluster& c = cluster;
    if (c.coordinator == nullptr) {
      ASSERT_TRUE(c.start_coordinator().ok());
      c.add_server();
      c.add_server();
    }
    ASSERT_TRUE(c.create("t", 2).has_value());
    downgrade(format);
    ASSERT_TRUE(c.create("u", 2).has_value());
    EXPECT_EQ(chunks(), 0u);
    const uint64_t of_u = c.coordinator->state().find_table("u")->id;
    EXPECT_EQ(c.coordinator->state().tables.at(of_u).tablets[0].creation_position, 0u);
    TableRecord table;
    ASSERT_TRUE(decode_record(record(table_key(of_u)), table));
    EXPECT_EQ(encode_record(table, format), record(table_key(of_u)));
    EXPECT_EQ(table.span, 0u) << "what former builds do not know was written";

    ASSERT_TRUE(c.wait_for(c.coordinator->upgrade_metadata(c.reactor.now() + 30s)).has_value());
    EXPECT_EQ(chunks(), 0u);
    ASSERT_TRUE(c.create("v", 2).has_value());
    EXPECT_EQ(chunks(), 1u);
    restart();
    EXPECT_EQ(c.coordinator->state().find_table("t")->span, 2u);
    for (const char* name : {"t", "u", "v"}) {
      EXPECT_EQ(c.create(name, 1).error().code(), StatusCode::kExists);
      EXPECT_TRUE(c.drop(name).has_value());
    }
    EXPECT_EQ(chunks(), 0u);
  }
  EXPECT_EQ(cluster.violation, "");
}

TEST_F(RecordFormats, WhatANewerCoordinatorWroteIsKeptWhenARecordIsWrittenAgain) {
  ASSERT_TRUE(cluster.start_coordinator().ok());
  cluster.add_server();
  cluster.add_server();
  ASSERT_TRUE(cluster.create("t", 1).has_value());
  cluster.stop_coordinator();
  const auto touch = [this](const std::string& key, std::string_view more) {
    record(key) = with_more(record(key), more);
  };
  cluster.metadata.records[replication_epoch_key(2)] =
      encode_record(ReplicationEpochRecord{2, 1, 1}, kMetadataFormatMax);
  touch(kTermKey, "of a term");
  touch(kIdsKey, "of ids");
  touch(server_key(1), "of a server");
  touch(table_key(1), "of a table");
  touch(tablet_chunk_key(1, 1, 0), "of a chunk");
  touch(replication_epoch_key(2), "of an epoch");
  ASSERT_TRUE(cluster.start_coordinator().ok());
  ASSERT_TRUE(cluster.create("u", 1).has_value());
  ASSERT_TRUE(cluster
                  .call<wire::Empty>(wire::Opcode::kRaiseReplicationEpoch,
                                     wire::RaiseReplicationEpochRequest{2, 5, 2})
                  .has_value());
  cluster.kill_server(*cluster.servers[0]);
  ASSERT_TRUE(cluster.run_until([this] {
    return cluster.coordinator->state().servers.at(1).record.state == wire::ServerState::kCrashed;
  }));
  EXPECT_TRUE(record(kTermKey).ends_with("of a term"));
  EXPECT_TRUE(record(kIdsKey).ends_with("of ids"));
  EXPECT_TRUE(record(server_key(1)).ends_with("of a server"));
  EXPECT_TRUE(record(replication_epoch_key(2)).ends_with("of an epoch"));
  (void)cluster.create("w", 1);
  EXPECT_TRUE(record(table_key(1)).ends_with("of a table"));
}

}  // namespace
}  // namespace ramcloud
