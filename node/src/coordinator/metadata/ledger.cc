#include "coordinator/metadata/ledger.h"

#include <algorithm>
#include <cassert>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "base/text.h"
#include "coordinator/metadata/table_writer.h"

namespace ramcloud {
namespace {

constexpr Duration kStoreRetry = 100ms;
using wire::kMaxTerm;

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
  if (decode_record(bytes, record)) return {};
  return {StatusCode::kCorrupt,
          fmt::format("metadata record '{}' ({} bytes) does not decode", key, bytes.size())};
}

Status impossible(const std::string& key, uint64_t number) {
  return {StatusCode::kCorrupt, fmt::format("metadata record '{}' has {}, which is too large to be "
                                            "one of ours; accepted is at most {}",
                                            key, number, kMaxTerm)};
}

Status read_term(const std::string& bytes, TermRecord& record) {
  RC_RETURN_IF_ERROR(read_record(kTermKey, bytes, record));
  const uint64_t larger = std::max(record.term, record.revision);
  return larger > kMaxTerm ? impossible(kTermKey, larger) : Status();
}

Status read_cluster(const MetadataStore::Records& records, const std::string& wanted_name,
                    ClusterState& state) {
  const auto found = records.find(kClusterKey);
  if (found == records.end()) {
    return {StatusCode::kCorrupt, "metadata record '/cluster' is missing"};
  }
  auto cluster = read_cluster_record(found->second, wanted_name);
  if (!cluster) return std::move(cluster.error());
  state.uuid = cluster->uuid;
  state.name = cluster->name;
  state.format = cluster->format;
  return {};
}

Status read_state(const MetadataStore::Records& records, ClusterState& state) {
  if (const auto ids = records.find(kIdsKey); ids != records.end()) {
    RC_RETURN_IF_ERROR(read_record(kIdsKey, ids->second, state.ids));
  }
  if (const auto restate = records.find(kRestateKey); restate != records.end()) {
    RC_RETURN_IF_ERROR(read_record(kRestateKey, restate->second, state.restate.emplace()));
  }
  for (const auto& [key, bytes] : records) {
    if (key.starts_with(kServerPrefix)) {
      ServerRecord server;
      RC_RETURN_IF_ERROR(read_record(key, bytes, server));
      state.servers[server.id].record = server;
    } else if (key.starts_with(kTablePrefix)) {
      RC_RETURN_IF_ERROR(is_tablet_chunk_key(key) ? read_tablet_chunk(key, bytes, state)
                                                  : read_table_record(key, bytes, state));
    } else if (key.starts_with(kReplicationEpochPrefix)) {
      ReplicationEpochRecord epoch;
      RC_RETURN_IF_ERROR(read_record(key, bytes, epoch));
      state.replication_epochs[epoch.server_id] = epoch;
    } else if (key.starts_with(kAcceptedLossPrefix)) {
      AcceptedLossRecord loss;
      RC_RETURN_IF_ERROR(read_record(key, bytes, loss));
      state.accepted_losses[loss.server_id].push_back(std::move(loss));
    }
  }
  return complete_tables(state);
}

/// Reserves revisions of the admin API. Coordinators of earlier versions, without this record,
/// begin at the number of transactions times 2^32.
Status reserve_revisions(const MetadataStore::Records& records, uint64_t transactions,
                         ClusterState& state) {
  if (const auto found = records.find(kRevisionsKey); found != records.end()) {
    RC_RETURN_IF_ERROR(read_record(kRevisionsKey, found->second, state.revisions));
  }
  uint64_t& next = state.revisions.next;
  if (transactions <= ~uint32_t{0}) next = std::max(next, transactions << 32);
  if (next > ~uint64_t{0} - kRevisionsReserved) return impossible(kRevisionsKey, next);
  state.first_revision = next;
  next += kRevisionsReserved;
  return {};
}

}  // namespace

Result<ClusterRecord> read_cluster_record(const std::string& bytes,
                                          const std::string& wanted_name) {
  ClusterRecord cluster;
  if (Status read = read_record(kClusterKey, bytes, cluster); !read.ok()) {
    return fail(std::move(read));
  }
  if (cluster.format < kMetadataFormatMin || cluster.format > kMetadataFormatMax) {
    return fail(StatusCode::kUnsupported,
                fmt::format("metadata has format {}; this build reads {} to {}", cluster.format,
                            kMetadataFormatMin, kMetadataFormatMax));
  }
  if (!wanted_name.empty() && wanted_name != cluster.name) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("cluster name '{}' is not accepted: the metadata is of cluster '{}' "
                            "({})",
                            wanted_name, cluster.name, format_uuid(cluster.uuid)));
  }
  return cluster;
}

Result<ClusterState> read_cluster_state(const MetadataStore::Records& records) {
  TermRecord term;
  ClusterState state;
  Status read = read_term(records.at(kTermKey), term);
  if (read.ok()) read = read_cluster(records, "", state);
  if (read.ok()) read = read_state(records, state);
  if (!read.ok()) return fail(std::move(read));
  state.term = term.term;
  state.list_version = term.revision;
  return state;
}

/// Loads records, and retries while the store does not answer. CORRUPT: a retry is useless;
/// NOT_LEADER.
Task<Result<MetadataStore::Records>> Ledger::load_patiently(std::string prefix) {
  for (;;) {
    if (fenced()) co_return fail(replaced(false));
    auto loaded = co_await store_.load(prefix);
    if (loaded || loaded.error() == StatusCode::kCorrupt) co_return loaded;
    log_warn("metadata.unreadable", {{"error", loaded.error()}});
    co_await reactor_.sleep(kStoreRetry);
  }
}

Task<Result<ClusterState>> Ledger::open(std::string name, uint64_t leadership) {
  leadership_ = leadership;
  for (;;) {
    const auto loaded = co_await load_patiently("");
    if (!loaded) co_return fail(loaded.error());
    const MetadataStore::Records& records = *loaded;
    if (records.contains(kImportKey)) {
      co_return fail(StatusCode::kCorrupt,
                     "an import of metadata into this store was not finished: import again");
    }
    std::optional<std::string> before;
    MetadataChange change;
    ClusterState state;
    Status read;
    if (const auto term = records.find(kTermKey); term != records.end()) {
      before = term->second;
      read = read_term(term->second, current_);
      if (read.ok()) read = read_cluster(records, name, state);
    } else {
      state.uuid = random_uuid(reactor_.random());
      state.name = name.empty() ? "ramcloud" : name;
      change.put(kClusterKey, ClusterRecord{state.format, state.uuid, state.name});
      current_ = TermRecord();
    }
    format_ = state.format;
    TermOffsetRecord offset;
    if (const auto found = records.find(kTermOffsetKey); read.ok() && found != records.end()) {
      read = read_record(kTermOffsetKey, found->second, offset);
      if (read.ok() && offset.offset > kMaxTerm) read = impossible(kTermOffsetKey, offset.offset);
    }
    if (read.ok()) read = read_state(records, state);
    if (!read.ok()) co_return fail(std::move(read));

    if (read.ok()) read = reserve_revisions(records, current_.revision + 1, state);
    if (!read.ok()) co_return fail(std::move(read));
    change.put(kRevisionsKey, state.revisions);

    // The term is the number of the leadership. If the records show a higher term, they came from
    // another store; then the difference is stored as the offset.
    if (leadership + offset.offset <= current_.term) {
      offset.offset = current_.term + 1 - leadership;
      change.put(kTermOffsetKey, offset);
    }

    // The outcome is unknown, or another coordinator was faster: read again. Raising the term twice
    // is harmless.
    Status raised = co_await raise_term(before, leadership + offset.offset, std::move(change));
    if (raised == StatusCode::kNotLeader) co_return fail(std::move(raised));
    offset_ = offset;
    if (!raised.ok()) {
      co_await reactor_.sleep(kStoreRetry);
      continue;
    }
    state.term = current_.term;
    state.first_list_version = current_.revision;
    state.list_version = current_.revision;  // above every version that earlier terms pushed
    co_return state;
  }
}

Task<Status> Ledger::raise_term(std::optional<std::string> before, uint64_t term,
                                MetadataChange change) {
  TermRecord next = current_;
  next.term = term;
  ++next.revision;
  change.put(kTermKey, next);
  change.transaction_.leadership = leadership_;
  change.transaction_.conditions.push_back({kTermKey, before});
  const CommitResult result = co_await store_.commit(change.in_format(format_));
  if (result.outcome == CommitOutcome::kCommitted) {
    current_ = next;
    current_bytes_ = encode_record(next, format_);
    co_return StatusCode::kOk;
  }
  log_warn("metadata.term_not_raised", {{"error", result.message}});
  if (result.outcome == CommitOutcome::kUnknown) co_return StatusCode::kRetry;
  // The condition failed although the record is unchanged: our leadership is lost, even if its
  // lease has not ended.
  const auto records = co_await load_patiently(kTermKey);
  if (!records) co_return records.error();
  const auto now = records->find(kTermKey);
  const bool same = now == records->end() ? !before : before == now->second;
  co_return same ? replaced(false) : Status(StatusCode::kRetry);
}

/// The content of one transaction of commit().
struct Ledger::Attempt {
  TermRecord record;
  std::string after;  // the record '/term' after it
  MetadataTransaction transaction;
};

Ledger::Attempt Ledger::attempt(MetadataChange change, uint64_t revisions, uint64_t term) const {
  TermRecord next = current_;
  next.term = term;
  next.revision += revisions;
  change.put(kTermKey, next);
  change.transaction_.leadership = leadership_;
  change.transaction_.conditions.push_back({kTermKey, current_bytes_});
  return {next, encode_record(next, format_), change.in_format(format_)};
}

void Ledger::adopt(const Attempt& made) {
  current_ = made.record;
  current_bytes_ = made.after;
}

Task<Status> Ledger::raise_format(const AsyncMutex::Lock& lock, ClusterRecord cluster,
                                  Objection objection) {
  const uint16_t format = cluster.format;
  MetadataChange change;
  change.put(kClusterKey, cluster);
  Status done = co_await commit(lock, std::move(change), std::move(objection));
  if (done.ok()) format_ = format;
  co_return done;
}

/// Marks the ledger as failing until commit() ends: then the store answers again, or we do not lead
/// any more.
class Ledger::Failing {
 public:
  explicit Failing(Ledger& ledger) : ledger_(ledger) {}
  ~Failing() { ledger_.failing_ = false; }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;

 private:
  Ledger& ledger_;
};

/// If a change must be withdrawn but a try may still reach the store, an empty change is committed
/// in its place: only one of the two can be the next transaction.
Task<Status> Ledger::commit(const AsyncMutex::Lock& lock, MetadataChange change,
                            Objection objection) {
  return commit_at({current_.term, 1}, lock, std::move(change), std::move(objection));
}

Task<Status> Ledger::pass_revision(const AsyncMutex::Lock& lock, uint64_t revision) {
  assert(revision > current_.revision && revision <= kMaxTerm);
  return commit_at({current_.term, revision - current_.revision}, lock, MetadataChange(), nullptr);
}

/// The offset is written, too: the next leader's term is the number of its leadership plus the
/// offset.
Task<Status> Ledger::rise_to(const AsyncMutex::Lock& lock, uint64_t term) {
  assert(term > current_.term && term >= leadership_);
  TermOffsetRecord offset = offset_;
  offset.offset = term - leadership_;
  MetadataChange change;
  change.put(kTermOffsetKey, offset);
  Status done = co_await commit_at({term, 1}, lock, std::move(change), nullptr);
  if (done.ok()) offset_ = offset;
  co_return done;
}

Task<Status> Ledger::commit_at(Step step, [[maybe_unused]] const AsyncMutex::Lock& lock,
                               MetadataChange change, Objection objection) {
  assert(lock.held());
  const std::string before = current_bytes_;
  const Attempt wanted = attempt(std::move(change), step.revisions, step.term);
  // The two differ by their revision.
  const Attempt nothing = attempt(MetadataChange(), step.revisions + 1, current_.term);
  Status objected;
  bool unknown = false;  // a try may have taken effect, or may still do so
  const Failing end_of_failing(*this);
  while (!fenced()) {
    if (objection && objected.ok()) objected = objection();
    if (!objected.ok() && !unknown) co_return objected;
    const Attempt& next = objected.ok() ? wanted : nothing;
    RC_FAILPOINT("coordinator.commit.before");
    const CommitResult result = co_await store_.commit(next.transaction);
    RC_FAILPOINT("coordinator.commit.after");
    if (result.outcome == CommitOutcome::kCommitted) {
      adopt(next);
      co_return objected;
    }
    const bool refused = result.outcome == CommitOutcome::kConditionFailed;
    if (!refused) {
      RC_SOMETIMES("coordinator.outcome_of_a_change_is_unknown");
      unknown = failing_ = true;
      log_warn("metadata.outcome_unknown",
               {{"revision", next.record.revision}, {"error", result.message}});
    }
    const auto records = co_await load_patiently(kTermKey);
    if (!records) break;
    const std::string now = records->contains(kTermKey) ? records->at(kTermKey) : "";
    if (now == wanted.after) {
      RC_SOMETIMES("coordinator.change_of_unknown_outcome_was_made");
      adopt(wanted);
      co_return StatusCode::kOk;
    }
    if (now == nothing.after) {
      adopt(nothing);
      co_return objected;
    }
    // The condition failed although the record is unchanged: the leadership is lost, so no earlier
    // try can take effect any more.
    if (refused && now == before) {
      unknown = false;
      break;
    }
    if (now != before) break;  // another coordinator leads
    RC_SOMETIMES("coordinator.change_of_unknown_outcome_was_not_made");
    co_await reactor_.sleep(kStoreRetry);
  }
  fence();
  co_return replaced(unknown);
}

void Ledger::fence() {
  fenced_ = true;
  if (on_fenced_) on_fenced_();
}

Status Ledger::too_late() {
  return {StatusCode::kDeadlineExceeded,
          "the metadata store did not take the change in time; it was not made"};
}

Ledger::Objection Ledger::until(Time deadline) {
  return [this, deadline] { return reactor_.now() < deadline ? Status() : too_late(); };
}

Status Ledger::replaced(bool unknown) {
  RC_SOMETIMES("coordinator.is_replaced_during_a_change");
  log_error("metadata.leadership_lost", {{"term", current_.term}, {"leadership", leadership_}});
  if (unknown) {
    return {StatusCode::kIndeterminate,
            fmt::format("this coordinator (term {}) has lost its leadership; the change may or may "
                        "not have been made",
                        current_.term)};
  }
  return {StatusCode::kNotLeader,
          fmt::format("this coordinator (term {}) has been replaced", current_.term)};
}

}  // namespace ramcloud
