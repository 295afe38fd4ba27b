// Multi-operations of the client [Ousterhout15 §3.1]. They run in rounds: the remaining operations
// are grouped by the server of their tablet. The groups run in parallel; the messages of a group
// one after the other, so that operations on one key keep their order. Operations that a server did
// not execute (its log is not ready, the tablet moved) are left for the next round, as are later
// operations on the same keys, until the deadline.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/sometimes.h"
#include "client/core.h"
#include "client/multi_reply.h"
#include "client/outcome.h"
#include "runtime/when_all.h"

namespace ramcloud {
namespace {

/// The most bytes in one message's body, except that one operation always fits.
constexpr size_t kBatchBytes = 1 << 20;
/// The most bytes requested for a multi-read's reply; the server may send less.
constexpr uint32_t kReplyBytes = 1 << 20;

void append_operation(wire::Opcode opcode, const MultiOperation& operation, std::string& body) {
  const auto key_length = static_cast<uint16_t>(operation.key.size());
  if (opcode == wire::Opcode::kMultiWrite) {
    body.append(
        bytes_of(wire::WriteRequest{operation.table_id, operation.reject,
                                    static_cast<uint32_t>(operation.value.size()), key_length, 0}));
    body.append(operation.key).append(operation.value);
  } else {
    static_assert(sizeof(wire::ReadRequest) == sizeof(wire::DeleteRequest));
    body.append(bytes_of(wire::ReadRequest{operation.table_id, operation.reject, key_length, {}}));
    body.append(operation.key);
  }
}

}  // namespace

bool parse_multi_reply(ByteView body, size_t asked, wire::MultiReply& header,
                       std::vector<MultiAnswer>& answers) {
  if (body.size() < sizeof header) return false;
  header = load<wire::MultiReply>(body.data());
  body.remove_prefix(sizeof header);
  if (header.count == 0 || header.count > asked) return false;
  answers.resize(header.count);
  for (MultiAnswer& answer : answers) {
    if (body.size() < sizeof(wire::MultiResult)) return false;
    const auto result = load<wire::MultiResult>(body.data());
    body.remove_prefix(sizeof result);
    if (result.value_length > body.size()) return false;
    answer = {static_cast<StatusCode>(result.status), result.version,
              body.substr(0, result.value_length)};
    body.remove_prefix(result.value_length);
  }
  return body.empty();
}

/// Identifies an object: operations on the same object have the same target.
using Target = std::pair<uint64_t, ByteView>;

/// One multi-operation in progress.
struct ClientCore::Multi {
  wire::Opcode opcode = wire::Opcode::kInvalid;
  Repeat repeat = Repeat::kSafe;
  std::vector<MultiOperation> operations;
  std::vector<std::optional<Result<ReadResult>>> results;  // none: not done yet
  std::vector<uint32_t> left;                              // operations without a result, in order
  int round = 0;
  std::map<uint64_t, int> in_vain;  // by server: rounds in a row in which it did nothing
  Time until = kNever;
  uint32_t retry_after_us = 0;              // the longest wait that servers asked for in the last
                                            // round
  std::map<uint64_t, uint64_t> newer_than;  // by table: a map of this generation or older was wrong
  Status last;                              // why an operation was not executed in the last round
  std::string where;                        // where it was not executed

  Target target(uint32_t i) const { return {operations[i].table_id, operations[i].key}; }

  void not_done(uint64_t table_id, uint64_t generation, uint64_t server_id, Status status,
                std::string at) {
    if (wants_new_map(status.code(), round, in_vain[server_id])) newer_than[table_id] = generation;
    last = std::move(status);
    where = std::move(at);
  }
};

/// The operations for one server in a round.
struct ClientCore::MultiGroup {
  Place place;
  std::string table_name;   // of the first operation
  uint64_t generation = 0;  // of the first operation's map
  std::vector<uint32_t> indices;

  std::string where(uint64_t table_id) const {
    return fmt::format("table '{}' (id {}), {}", table_name, table_id, describe(place));
  }
};

Task<ClientCore::Reads> ClientCore::multi(wire::Opcode opcode,
                                          std::vector<MultiOperation> operations, Timeout timeout) {
  Multi multi;
  multi.opcode = opcode;
  multi.repeat = opcode == wire::Opcode::kMultiRead ? Repeat::kSafe : Repeat::kUnsafe;
  multi.operations = std::move(operations);
  multi.results.resize(multi.operations.size());
  multi.until = deadline(timeout);
  for (uint32_t i = 0; i < multi.operations.size(); ++i) {
    Status bad = check_key(multi.operations[i].key);
    if (bad.ok()) bad = check_value(multi.operations[i].value);
    if (!bad.ok()) multi.results[i] = fail(std::move(bad));
  }
  BackOff back_off;
  for (;; ++multi.round) {
    multi.left.clear();
    for (uint32_t i = 0; i < multi.results.size(); ++i) {
      if (!multi.results[i]) multi.left.push_back(i);
    }
    if (multi.left.empty()) break;
    if (multi.round > 0) {
      const Duration wait = back_off.next_asked(reactor().random(), multi.retry_after_us);
      if (multi.until - reactor().now() <= wait) {
        for (const uint32_t i : multi.left) {
          multi.results[i] = fail(out_of_time(multi.last, multi.where));
        }
        break;
      }
      co_await reactor().sleep(wait);
    }
    multi.retry_after_us = 0;
    const size_t before = multi.left.size();
    co_await multi_round(multi);
    const auto after = static_cast<size_t>(std::ranges::count_if(
        multi.left, [&](uint32_t i) { return !multi.results[i].has_value(); }));
    if (after < before) back_off.reset();  // there was progress
  }
  Reads results;
  results.reserve(multi.results.size());
  for (auto& result : multi.results) results.push_back(std::move(*result));
  co_return results;
}

/// Groups the remaining operations by server and sends them.
Task<void> ClientCore::multi_round(Multi& multi) {
  // First get the map of each table, then look up all places without waiting, because maps may
  // change during a wait.
  std::map<uint64_t, Status> tables;
  for (const uint32_t i : multi.left) {
    const uint64_t table_id = multi.operations[i].table_id;
    if (tables.contains(table_id)) continue;
    auto located = co_await locate(table_id, 0, multi.newer_than[table_id], multi.until);
    tables[table_id] = located ? Status() : std::move(located.error());
  }
  std::map<uint64_t, MultiGroup> groups;  // by server id
  for (const uint32_t i : multi.left) {
    const MultiOperation& operation = multi.operations[i];
    const TabletMap::Table* table = map_.find(operation.table_id);
    const Status& located = tables[operation.table_id];
    if (table == nullptr || !located.ok()) {
      multi.results[i] =
          fail(!located.ok() ? located
                             : Status(StatusCode::kUnavailable, "the table was dropped meanwhile"));
      continue;
    }
    const Place& place = TabletMap::place_of(*table, key_hash(operation.table_id, operation.key));
    if (!place.reachable()) {
      multi.not_done(
          operation.table_id, table->generation, place.server_id, why_unreachable(place),
          fmt::format("table '{}' (id {}), {}", table->name, operation.table_id, describe(place)));
      continue;
    }
    MultiGroup& group = groups[place.server_id];
    if (group.indices.empty()) {
      group.place = place;
      group.table_name = table->name;
      group.generation = table->generation;
    }
    group.indices.push_back(i);
  }
  std::vector<Task<void>> tasks;
  for (auto& [server_id, group] : groups) tasks.push_back(multi_group(multi, group));
  co_await when_all(std::move(tasks));
  for (const auto& [server_id, group] : groups) {
    const bool did_some = std::ranges::any_of(
        group.indices, [&multi](uint32_t i) { return multi.results[i].has_value(); });
    multi.in_vain[server_id] = did_some ? 0 : multi.in_vain[server_id] + 1;
  }
}

/// One server's operations, message by message.
Task<void> ClientCore::multi_group(Multi& multi, MultiGroup& group) {
  std::vector<MultiAnswer> answers;
  for (size_t next = 0; next < group.indices.size();) {
    size_t end = next;
    std::string body(sizeof(wire::MultiRequest), '\0');
    while (end < group.indices.size() && end - next < wire::kMaxMultiCount) {
      const MultiOperation& operation = multi.operations[group.indices[end]];
      const size_t size =
          sizeof(wire::WriteRequest) + operation.key.size() + operation.value.size();
      if (end > next && body.size() + size > kBatchBytes) break;
      append_operation(multi.opcode, operation, body);
      ++end;
    }
    const wire::MultiRequest header{static_cast<uint32_t>(end - next), kReplyBytes};
    body.replace(0, sizeof header, bytes_of(header));
    const uint64_t table_id = multi.operations[group.indices[next]].table_id;
    const std::span batch(group.indices.data() + next, end - next);
    const MultiBatch in_message{multi.operations, batch};
    const TabletCall call{.table_id = table_id,
                          .opcode = multi.opcode,
                          .repeat = multi.repeat,
                          .body = std::move(body),
                          .refused = {},
                          .batch = &in_message};
    RpcReply reply = co_await attempt(group.place, call, multi.round, multi.until);

    const auto finish = [&](const Status& status) {
      for (const uint32_t i : batch) multi.results[i] = fail(status);
    };
    wire::MultiReply answered{};
    if (reply.ok() && !parse_multi_reply(reply.body, batch.size(), answered, answers)) {
      reply.status = Status(StatusCode::kProtocolError, "the server's reply does not decode");
      if (multi.repeat == Repeat::kSafe) co_return finish(reply.status);
    }
    if (!reply.ok()) {
      const Outcome outcome = outcome_at_server(reply.status.code());
      if (outcome == Outcome::kFinal) co_return finish(reply.status);
      if (outcome == Outcome::kMaybeDone && multi.repeat == Repeat::kUnsafe) {
        RC_SOMETIMES("client.outcome_of_a_multi_operation_is_unknown");
        co_return finish(
            Status(StatusCode::kIndeterminate,
                   fmt::format("{}: the reply was lost ({}); it may or may not have happened",
                               group.where(table_id), reply.status.to_string())));
      }
      multi.retry_after_us = std::max(multi.retry_after_us, reply.retry_after_us);
      // A failure of the server applies to all tables in the message.
      std::set<uint64_t> tables;
      for (const uint32_t i : batch) tables.insert(multi.operations[i].table_id);
      for (const uint64_t table : tables) {
        const uint64_t generation =
            table == table_id ? group.generation : map_.generation_of(table);
        multi.not_done(table, generation, group.place.server_id, reply.status, group.where(table));
      }
      co_return;
    }
    std::set<Target> refused;
    for (size_t k = 0; k < answers.size(); ++k) {
      const uint32_t i = batch[k];
      const MultiAnswer& answer = answers[k];
      if (answer.status == StatusCode::kOk) {
        multi.results[i] = ReadResult{answer.version, std::string(answer.value)};
      } else if (outcome_of(answer.status) == Outcome::kFinal) {
        multi.results[i] = fail(answer.status);
      } else {
        const uint64_t table = multi.operations[i].table_id;
        multi.not_done(table, map_.generation_of(table), group.place.server_id, answer.status,
                       group.where(table));
        refused.insert(multi.target(i));
      }
    }
    next += answers.size();
    if (!refused.empty()) {
      const auto waits = [&](uint32_t i) { return refused.contains(multi.target(i)); };
      const auto rest = group.indices.begin() + static_cast<ptrdiff_t>(next);
      group.indices.erase(std::remove_if(rest, group.indices.end(), waits), group.indices.end());
    }
    if (answered.retry_after_us > 0) {
      multi.retry_after_us = std::max(multi.retry_after_us, answered.retry_after_us);
      co_return multi.not_done(table_id, group.generation, group.place.server_id,
                               StatusCode::kRetry, group.where(table_id));
    }
  }
}

Task<ClientCore::Reads> ClientCore::multi_read(std::vector<MultiOperation> operations,
                                               Timeout timeout) {
  return multi(wire::Opcode::kMultiRead, std::move(operations), timeout);
}

Task<ClientCore::Versions> ClientCore::multi_write(std::vector<MultiOperation> operations,
                                                   Timeout timeout) {
  return multi_versions(wire::Opcode::kMultiWrite, std::move(operations), timeout);
}

Task<ClientCore::Versions> ClientCore::multi_remove(std::vector<MultiOperation> operations,
                                                    Timeout timeout) {
  return multi_versions(wire::Opcode::kMultiDelete, std::move(operations), timeout);
}

Task<ClientCore::Versions> ClientCore::multi_versions(wire::Opcode opcode,
                                                      std::vector<MultiOperation> operations,
                                                      Timeout timeout) {
  Reads results = co_await multi(opcode, std::move(operations), timeout);
  Versions versions;
  versions.reserve(results.size());
  for (auto& result : results) {
    if (result) {
      versions.push_back(result->version);
    } else {
      versions.push_back(fail(std::move(result.error())));
    }
  }
  co_return versions;
}

}  // namespace ramcloud
