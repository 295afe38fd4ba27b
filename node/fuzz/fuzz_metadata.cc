// What the coordinator reads back: an export of metadata (first byte even), or the records of its
// store, as it takes over from another (odd): {kind, id, length, bytes} one behind the other.
// Accepted input must be valid, and must give the same records and export again.
#include <cstdlib>

#include "base/logging.h"
#include "coordinator/core/cluster_view.h"
#include "coordinator/metadata/invariants.h"
#include "coordinator/metadata/ledger.h"
#include "coordinator/metadata/metadata_export.h"
#include "coordinator/metadata/sim_metadata.h"
#include "fuzz/input.h"
#include "runtime/sim/sim_scheduler.h"

using namespace ramcloud;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_export(std::string_view text) {
  const auto records = parse_export(text);
  if (!records) {
    require(!records.error().ok() && !records.error().message().empty());
    return;
  }
  const auto again = format_export(*records);
  if (!again) return;  // valid lines, but not a cluster
  const auto same = parse_export(*again);
  require(same.has_value() && *same == *records);
}

template <typename Record>
void check_record(const std::string& bytes) {
  Record record;
  if (!decode_record(bytes, record)) return;
  // Keeps unknown fields; fields that earlier formats lack are added.
  const uint16_t format = bytes.starts_with(kRecordMark) ? kMetadataFormatMax : 1;
  const std::string whole = encode_record(record, format);
  require(format > 1 || whole == bytes);
  Record same;
  require(decode_record(whole, same) && encode_record(same, format) == whole);
}

MetadataStore::Records take_records(fuzz::Input& in) {
  MetadataStore::Records records;
  while (!in.empty()) {
    const uint8_t kind = in.u8();
    const uint8_t id = in.u8();
    const std::string bytes(in.take(in.u16()));
    if (kind == 0xf5) {
      check_record<TabletChunkRecord>(bytes);
      TabletChunkRecord chunk;
      if (!decode_record(bytes, chunk) || chunk.tablets.empty()) continue;
      const uint64_t start = chunk.tablets.front().start_hash;
      records[tablet_chunk_key(chunk.table_id, chunk.layout, start)] = bytes;
      continue;
    }
    switch (kind % 8) {
      case 0:
        check_record<TermRecord>(bytes);
        records[kTermKey] = bytes;
        break;
      case 1:
        check_record<TermOffsetRecord>(bytes);
        records[kTermOffsetKey] = bytes;
        break;
      case 2:
        check_record<ClusterRecord>(bytes);
        records[kClusterKey] = bytes;
        break;
      case 3:
        check_record<IdsRecord>(bytes);
        records[kIdsKey] = bytes;
        break;
      case 4:
        check_record<ServerRecord>(bytes);
        records[server_key(id)] = bytes;
        break;
      case 5:
        check_record<TableRecord>(bytes);
        records[table_key(id)] = bytes;
        break;
      case 6:
        check_record<ReplicationEpochRecord>(bytes);
        records[replication_epoch_key(id)] = bytes;
        break;
      case 7:
        check_record<LeaderRecord>(bytes);
        records[std::string("/") + static_cast<char>(id)] = bytes;
        break;
    }
  }
  return records;
}

void show(const ClusterState& state) {
  for (const Side side : {Side::kInside, Side::kOutside}) (void)state.all_tables(side);
  (void)cluster_status(state, "fuzz");
  for (const auto& [id, server] : state.servers) (void)server_view(state, server);
  wire::ServerList list;
  require(wire::decode(wire::encode(state.server_list(), 2), 2, list));
}

void check_store(fuzz::Input& in) {
  SimMetadataState stored;
  stored.records = take_records(in);
  TermRecord before;
  if (const auto found = stored.records.find(kTermKey); found != stored.records.end()) {
    if (!decode_record(found->second, before)) before = {};
  }
  SimScheduler sim(1);
  SimNode& node = sim.add_node("c");
  SimMetadata store(node.reactor(), stored);
  const auto wait_for = [&](auto& task) {
    task.resume();
    require(sim.run_until([&] { return task.done(); }, 60s));
    return task.take();
  };
  auto campaign = store.campaign("fuzz");
  require(wait_for(campaign).has_value());
  Ledger ledger(node.reactor(), store);
  auto open = ledger.open("", store.leading());
  const auto state = wait_for(open);
  if (!state) {
    require(!state.error().message().empty());
    return;
  }
  require(state->term > before.term && state->list_version > before.revision);
  if (Invariants().check(*state).ok()) show(*state);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_log_level(LogLevel::kError);
  fuzz::Input in(data, size);
  if (in.u8() % 2 == 0) {
    check_export(in.rest());
  } else {
    check_store(in);
  }
  return 0;
}
