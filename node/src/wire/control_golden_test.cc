// The bytes of every control message in every version of the protocol. A byte of version 1 that
// changes shuts out the builds from before version 2. The file is regenerated with
// RAMCLOUD_UPDATE_GOLDEN=1, for messages and fields that were added.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "wire/codec.h"
#include "wire/control_messages.h"
#include "wire/message_header.h"
#include "wire/recovery_messages.h"
#include "wire/replica_messages.h"
#include "wire/testing/filler.h"
#include "wire/volume_messages.h"

namespace ramcloud::wire {
namespace {

using nlohmann::ordered_json;

constexpr const char* kPath = RAMCLOUD_GOLDEN_DIR "/control.json";

template <typename T>
void add(ordered_json& all, const char* name) {
  const T message = testing::filled<T>();
  ordered_json entry;
  for (uint16_t version = kVersionMin; version <= kVersionMax; ++version) {
    const std::string bytes = encode(message, version);
    T same;
    EXPECT_TRUE(decode(bytes, version, same)) << name;
    EXPECT_EQ(encode(same, version), bytes) << name;
    entry[std::to_string(version)] = testing::to_hex(bytes);
  }
  all[name] = entry;
}

ordered_json all_messages() {
  ordered_json all;
#define RC_ADD(Message) add<Message>(all, #Message)
  RC_ADD(Empty);
  RC_ADD(ClusterInfo);
  RC_ADD(TableInfo);
  RC_ADD(CreateTableRequest);
  RC_ADD(DropTableRequest);
  RC_ADD(GetTableRequest);
  RC_ADD(ListTablesRequest);
  RC_ADD(ListTablesReply);
  RC_ADD(ServerList);
  RC_ADD(GetServerListRequest);
  RC_ADD(EnlistRequest);
  RC_ADD(EnlistReply);
  RC_ADD(RaiseReplicationEpochRequest);
  RC_ADD(TakeTabletRequest);
  RC_ADD(TakeTabletReply);
  RC_ADD(DropTabletRequest);
  RC_ADD(GetServerStatsRequest);
  RC_ADD(ServerStats);
  RC_ADD(ResizeLogRequest);
  RC_ADD(ResizeLogReply);
  RC_ADD(RestateRequest);
  RC_ADD(Restatement);
  RC_ADD(ReportServerRequest);
  RC_ADD(ProbePeerRequest);
  RC_ADD(ProbePeerReply);
  RC_ADD(GetReplicasOnRequest);
  RC_ADD(ReplicasOn);
  RC_ADD(GetUnneededRequest);
  RC_ADD(Unneeded);
  RC_ADD(AdoptRequest);
  RC_ADD(Adopted);
  RC_ADD(ReplicaExtension);
  RC_ADD(RecoveryQueryRequest);
  RC_ADD(RecoveryQueryReply);
  RC_ADD(RecoveryFetchRequest);
  RC_ADD(RecoverRequest);
  RC_ADD(RecoveryState);
  RC_ADD(GetRecoveryStateRequest);
  RC_ADD(ServeRecoveredRequest);
  RC_ADD(AbortRecoveryRequest);
  RC_ADD(SyncReplicasRequest);
  RC_ADD(RenewLeaseRequest);
  RC_ADD(GrantLeaseRequest);
  RC_ADD(GetRecoveredRequest);
  RC_ADD(Recovered);
  RC_ADD(StopServingRequest);
#undef RC_ADD
  return all;
}

TEST(ControlGolden, EachMessageHasTheBytesOfEachVersion) {
  const ordered_json now = all_messages();
  std::ifstream in(kPath);
  const auto golden = ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (std::getenv("RAMCLOUD_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(kPath) << now.dump(1) << "\n";
    return;
  }
  ASSERT_TRUE(golden.is_object());
  for (const auto& [name, versions] : golden.items()) {
    ASSERT_TRUE(now.contains(name)) << name;
    for (const auto& [version, hex] : versions.items()) {
      EXPECT_EQ(now[name][version], hex) << name << " in version " << version;
    }
  }
  EXPECT_EQ(golden.size(), now.size()) << "regenerate the file, see above";
}

/// Peers of an earlier version ask for the whole list, and send it.
TEST(ControlGolden, ListsOfTablesFromBeforePages) {
  ListTablesRequest request{.first_id = 5, .max_bytes = 5};
  ASSERT_TRUE(decode(encode(Empty{}, 2), 2, request));
  EXPECT_EQ(request.max_bytes, 5u) << "not sent";
  ListTablesReply reply{.tables = {}, .next_id = 0};
  const std::string one_table{
      "\x1d\0\0\0\x01\0\0\0\x15\0\0\0\x08\0\0\0\0\0\0\0"
      "\x05\0\0\0empty\0\0\0\0",
      33};
  ASSERT_TRUE(decode(one_table, 2, reply));
  ASSERT_EQ(reply.tables.size(), 1u);
  EXPECT_EQ(reply.tables[0].name, "empty");
  EXPECT_EQ(reply.next_id, 0u);
  Empty nothing;
  EXPECT_TRUE(decode(encode(ListTablesRequest{.first_id = 5, .max_bytes = 5}, 2), 2, nothing));
}

}  // namespace
}  // namespace ramcloud::wire
