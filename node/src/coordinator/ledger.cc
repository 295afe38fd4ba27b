#include "coordinator/ledger.h"

#include <algorithm>
#include <cassert>

#include "base/logging.h"
#include "base/text.h"

namespace ramcloud {
namespace {

constexpr Duration kStoreRetry = 100ms;

wire::Uuid random_uuid(Random& random) {
  const uint64_t words[2] = {random.next(), random.next()};
  wire::Uuid uuid;
  std::memcpy(uuid.data(), words, uuid.size());
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0f) | 0x40);  // RFC 4122: version 4, random
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

template <typename Record>
Status read_record(const std::string& key, const std::string& bytes, Record& record) {
  if (wire::decode(bytes, record)) return {};
  return {StatusCode::kCorrupt,
          fmt::format("metadata record '{}' ({} bytes) does not decode", key, bytes.size())};
}

Status read_cluster(const MetadataStore::Records& records, const std::string& wanted_name,
                    ClusterState& state) {
  const auto found = records.find(kClusterKey);
  if (found == records.end()) {
    return {StatusCode::kCorrupt, "metadata record '/cluster' is missing"};
  }
  ClusterRecord cluster;
  RC_RETURN_IF_ERROR(read_record(kClusterKey, found->second, cluster));
  if (cluster.format != kMetadataFormat) {
    return {StatusCode::kUnsupported, fmt::format("metadata has format {}; this build reads {}",
                                                  cluster.format, kMetadataFormat)};
  }
  if (!wanted_name.empty() && wanted_name != cluster.name) {
    return {StatusCode::kInvalidArgument,
            fmt::format("cluster name '{}' is not accepted: the metadata is of cluster '{}' ({})",
                        wanted_name, cluster.name, format_uuid(cluster.uuid))};
  }
  state.uuid = cluster.uuid;
  state.name = cluster.name;
  return {};
}

Status read_state(const MetadataStore::Records& records, ClusterState& state) {
  if (const auto ids = records.find(kIdsKey); ids != records.end()) {
    RC_RETURN_IF_ERROR(read_record(kIdsKey, ids->second, state.ids));
  }
  for (const auto& [key, bytes] : records) {
    if (key.starts_with(kServerPrefix)) {
      ServerRecord server;
      RC_RETURN_IF_ERROR(read_record(key, bytes, server));
      state.servers[server.id].record = server;
    } else if (key.starts_with(kTablePrefix)) {
      TableRecord table;
      RC_RETURN_IF_ERROR(read_record(key, bytes, table));
      state.tables[table.id] = table;
    } else if (key.starts_with(kReplicationEpochPrefix)) {
      ReplicationEpochRecord epoch;
      RC_RETURN_IF_ERROR(read_record(key, bytes, epoch));
      state.replication_epochs[epoch.server_id] = epoch;
    }
  }
  return {};
}

}  // namespace

/// Waits while the store does not answer; fails only when it never will (CORRUPT).
Task<Result<MetadataStore::Records>> Ledger::load_patiently(std::string prefix) {
  for (;;) {
    auto loaded = co_await store_.load(prefix);
    if (loaded || loaded.error() == StatusCode::kCorrupt) co_return loaded;
    log_warn("metadata cannot be read, retrying", {{"error", loaded.error()}});
    co_await reactor_.sleep(kStoreRetry);
  }
}

Task<Result<ClusterState>> Ledger::open(std::string name) {
  for (;;) {
    const auto loaded = co_await load_patiently("");
    if (!loaded) co_return fail(loaded.error());
    const MetadataStore::Records& records = *loaded;
    std::optional<std::string> before;
    Change change;
    ClusterState state;
    Status read;
    if (const auto term = records.find(kTermKey); term != records.end()) {
      before = term->second;
      read = read_record(kTermKey, term->second, current_);
      if (read.ok()) read = read_cluster(records, name, state);
    } else {
      state.uuid = random_uuid(reactor_.random());
      state.name = name.empty() ? "ramcloud" : name;
      change.put(kClusterKey, ClusterRecord{kMetadataFormat, state.uuid, state.name});
      current_ = TermRecord();
    }
    if (read.ok()) read = read_state(records, state);
    if (!read.ok()) co_return fail(std::move(read));

    // Unknown, or overtaken by another: look again. Raising it twice does no harm.
    if (!(co_await raise_term(before, std::move(change))).ok()) {
      co_await reactor_.sleep(kStoreRetry);
      continue;
    }
    state.term = current_.term;
    state.list_version = current_.revision;  // above every version that earlier terms pushed
    co_return state;
  }
}

Task<Status> Ledger::raise_term(const std::optional<std::string>& before, Change change) {
  const TermRecord next{current_.term + 1, current_.revision + 1};
  change.put(kTermKey, next);
  change.transaction_.conditions.push_back({kTermKey, before});
  const CommitResult result = co_await store_.commit(std::move(change.transaction_));
  if (result.outcome != CommitOutcome::kCommitted) {
    log_warn("the term could not be raised, reading again", {{"error", result.message}});
    co_return StatusCode::kRetry;
  }
  current_ = next;
  co_return StatusCode::kOk;
}

Task<Status> Ledger::commit([[maybe_unused]] const AsyncMutex::Lock& held, Change change) {
  assert(held.held());
  const std::string before = wire::encode(current_);
  const TermRecord next{current_.term, current_.revision + 1};
  const std::string after = wire::encode(next);
  change.put(kTermKey, next);
  change.transaction_.conditions.push_back({kTermKey, before});

  while (!fenced_) {
    const CommitResult result = co_await store_.commit(change.transaction_);
    if (result.outcome == CommitOutcome::kCommitted) {
      current_ = next;
      co_return StatusCode::kOk;
    }
    if (result.outcome == CommitOutcome::kUnknown) {
      log_warn("outcome of a metadata change is unknown, reading again",
               {{"revision", next.revision}, {"error", result.message}});
    }
    const auto records = co_await load_patiently(kTermKey);
    const std::string now = records && records->contains(kTermKey) ? records->at(kTermKey) : "";
    if (now == after) {
      current_ = next;
      co_return StatusCode::kOk;
    }
    if (now != before) {
      fenced_ = true;
      log_error("the metadata is no longer this coordinator's", {{"term", current_.term}});
      break;
    }
    co_await reactor_.sleep(kStoreRetry);
  }
  co_return Status(StatusCode::kNotLeader,
                   fmt::format("this coordinator (term {}) has been replaced", current_.term));
}

}  // namespace ramcloud
