#include "coordinator/metadata/metadata_export.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <type_traits>

#include "base/checksum.h"
#include "base/text.h"
#include "coordinator/metadata/invariants.h"
#include "coordinator/metadata/ledger.h"

namespace ramcloud {
namespace {

using Records = MetadataStore::Records;
using nlohmann::ordered_json;

constexpr const char* kFormatName = "ramcloud-metadata";
constexpr size_t kOperations = 100;  // of one transaction: etcd takes 128
constexpr Duration kRetry = 100ms;

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return hex;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::optional<std::string> from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

/// The checksum of all lines before the last.
std::string checksum_of(std::string_view text) {
  return fmt::format("{:08x}", crc32c(text));
}

std::string line_of(const ordered_json& json) {
  return json.dump(-1, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

std::unexpected<Status> bad_line(size_t number, StatusCode code, std::string_view what) {
  return fail(code, fmt::format("metadata export, line {}: {}", number, what));
}

template <typename T>
bool take(const ordered_json& json, const char* name, T& value) {
  const auto found = json.find(name);
  if (found == json.end()) return false;
  // The library converts any number to an integer, even one that does not fit.
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if (!found->is_number_integer()) return false;
  }
  try {
    found->get_to(value);
  } catch (const ordered_json::exception&) {
    return false;
  }
  return true;
}

Status check_head(const ordered_json& head, size_t& records) {
  std::string format;
  int version = 0;
  if (!head.is_object() || !take(head, "format", format) || format != kFormatName ||
      !take(head, "version", version) || !take(head, "records", records)) {
    return bad_line(1, StatusCode::kInvalidArgument, "this is not an export of metadata").error();
  }
  if (version == kExportVersion) return {};
  return bad_line(1, StatusCode::kUnsupported,
                  fmt::format("version {}; this build reads {}", version, kExportVersion))
      .error();
}

}  // namespace

Result<std::string> format_export(const Records& records) {
  if (!records.contains(kClusterKey) || !records.contains(kTermKey)) {
    return fail(StatusCode::kNotFound, "this store has no metadata of a cluster");
  }
  // Records from which no coordinator would start are not a valid export.
  const auto state = read_cluster_state(records);
  if (!state) return fail(state.error());
  if (Status sound = Invariants().check(*state); !sound.ok()) return fail(std::move(sound));
  std::string text = line_of({{"format", kFormatName},
                              {"version", kExportVersion},
                              {"cluster", state->name},
                              {"uuid", format_uuid(state->uuid)},
                              {"term", state->term},
                              {"revision", state->list_version},
                              {"records", records.size()},
                              {"records_format", state->format}});
  for (const auto& [key, value] : records) {
    text += line_of({{"key", key}, {"value", to_hex(value)}});
  }
  return text + line_of({{"end", true}, {"crc32c", checksum_of(text)}});
}

Result<Records> parse_export(std::string_view text) {
  Records records;
  size_t expected = 0, number = 0;
  for (size_t at = 0; at < text.size();) {
    ++number;
    const size_t end = text.find('\n', at);
    const std::string_view line = text.substr(at, end - at);
    const auto json = ordered_json::parse(line, nullptr, false);
    std::string key, value, checksum;
    if (number == 1) {
      if (Status checked = check_head(json, expected); !checked.ok()) return fail(checked);
    } else if (!json.is_object() || end == std::string_view::npos) {
      return bad_line(number, StatusCode::kCorrupt, "it is damaged or cut short");
    } else if (take(json, "crc32c", checksum)) {
      bool ends = false;
      if (!take(json, "end", ends) || !ends || checksum != checksum_of(text.substr(0, at)) ||
          records.size() != expected) {
        return bad_line(number, StatusCode::kCorrupt,
                        "the checksum or the number of records is wrong");
      }
      if (end + 1 != text.size()) {
        return bad_line(number + 1, StatusCode::kCorrupt, "there is more after the end");
      }
      return records;
    } else {
      const bool has = take(json, "key", key) && take(json, "value", value);
      auto bytes = has ? from_hex(value) : std::nullopt;
      if (!bytes || !key.starts_with("/") || !records.emplace(key, std::move(*bytes)).second) {
        return bad_line(number, StatusCode::kCorrupt,
                        "it is not a record, or the record occurs twice");
      }
    }
    at = end == std::string_view::npos ? text.size() : end + 1;
  }
  return bad_line(number + 1, StatusCode::kCorrupt, "the end is missing: the export is cut short");
}

Task<Result<Records>> read_all(Reactor& reactor, MetadataStore& store, Time deadline) {
  for (;;) {
    auto loaded = co_await store.load("");
    if (loaded || loaded.error() == StatusCode::kCorrupt || reactor.now() >= deadline) {
      co_return loaded;
    }
    co_await reactor.sleep(kRetry);
  }
}

// ---- importing ----------------------------------------------------------------------------------

namespace {

/// Becomes leader, and returns the number of the leadership. UNAVAILABLE if another coordinator
/// leads or the store does not answer.
Task<Result<uint64_t>> lead_for_import(Reactor& reactor, MetadataStore& store, Time deadline) {
  for (;;) {
    const auto leader = co_await store.campaign(
        encode_record(LeaderRecord{"import", "", "", ""}, kMetadataFormatMin));
    if (const uint64_t leadership = store.leading(); leader && leadership != 0) {
      co_return leadership;
    }
    LeaderRecord record;
    if (leader && decode_record(leader->record, record)) {
      co_return fail(StatusCode::kUnavailable,
                     fmt::format("a coordinator uses this store ({}); stop all of them first",
                                 record.locator));
    }
    if (reactor.now() >= deadline) {
      co_return leader ? fail(StatusCode::kUnavailable, "another process uses this store")
                       : fail(leader.error());
    }
    co_await reactor.sleep(kRetry);
  }
}

/// Repeats the transaction until it is known to be committed; it is idempotent.
Task<Status> commit_surely(Reactor& reactor, MetadataStore& store, MetadataTransaction transaction,
                           Time deadline) {
  for (;;) {
    const CommitResult result = co_await store.commit(transaction);
    if (result.outcome == CommitOutcome::kCommitted) co_return StatusCode::kOk;
    if (result.outcome == CommitOutcome::kConditionFailed || reactor.now() >= deadline) {
      co_return Status(
          StatusCode::kUnavailable,
          "not all records could be written to the store; import again. " + result.message);
    }
    co_await reactor.sleep(kRetry);
  }
}

/// All transactions name one leadership, because an import that was suspended may resume while a
/// coordinator leads.
Task<Status> write_records(Reactor& reactor, MetadataStore& store, Records records,
                           uint64_t leadership, Time deadline) {
  const auto present = co_await read_all(reactor, store, deadline);
  if (!present) co_return present.error();
  if (!present->empty() && !present->contains(kImportKey)) {
    co_return Status(StatusCode::kExists,
                     fmt::format("the store has {} records already; an import needs an empty one",
                                 present->size()));
  }
  std::vector<MetadataTransaction> steps(1);
  steps[0].conditions.push_back({kTermKey, std::nullopt});  // no cluster was created meanwhile
  steps[0].puts.emplace_back(kImportKey, "");
  const auto add = [&steps](auto&& change) {
    if (steps.back().puts.size() + steps.back().deletes.size() >= kOperations) steps.emplace_back();
    change(steps.back());
  };
  for (const auto& [key, value] : *present) {
    if (key == kImportKey || records.contains(key)) continue;
    add([&key](MetadataTransaction& t) { t.deletes.push_back(key); });
  }
  for (const auto& record : records) {
    if (record.first == kTermKey) continue;
    add([&record](MetadataTransaction& t) { t.puts.push_back(record); });
  }
  // Only the last step makes the records a valid cluster.
  steps.push_back({{}, {{kTermKey, records.at(kTermKey)}}, {kImportKey}});
  for (auto& step : steps) {
    step.leadership = leadership;
    Status done = co_await commit_surely(reactor, store, std::move(step), deadline);
    if (!done.ok()) co_return done;
  }
  co_return StatusCode::kOk;
}

}  // namespace

namespace {

template <typename Record, typename Raise>
Status rewrite(Records& records, const char* key, uint16_t format, Raise raise) {
  Record record;
  if (const auto found = records.find(key); found != records.end()) {
    if (!decode_record(found->second, record)) return {StatusCode::kCorrupt, key};
  }
  raise(record);
  records[key] = encode_record(record, format);
  return {};
}

/// A server that was found dead at an earlier import was dead at this export.
Status forget_earlier_import(Records& records, uint16_t format) {
  for (auto& [key, bytes] : records) {
    if (!key.starts_with(kServerPrefix)) continue;
    ServerRecord server;
    if (!decode_record(bytes, server)) return {StatusCode::kCorrupt, key};
    if (!server.state_reason.starts_with(kFoundAtImport)) continue;
    server.state_reason =
        "found at an earlier import: " + server.state_reason.substr(kFoundAtImport.size());
    bytes = encode_record(server, format);
  }
  return {};
}

}  // namespace

Status leave_gap(Records& records) {
  const auto cluster = read_cluster_record(records.at(kClusterKey), "");
  if (!cluster) return cluster.error();
  uint64_t transactions = 0, last_server_id = 0;
  RC_RETURN_IF_ERROR(rewrite<TermRecord>(records, kTermKey, cluster->format, [&](TermRecord& r) {
    transactions = r.revision;
    r.term += kImportGap;
    r.revision += kImportGap;
  }));
  RC_RETURN_IF_ERROR(rewrite<IdsRecord>(records, kIdsKey, cluster->format, [&](IdsRecord& r) {
    last_server_id = r.last_server_id;
    r.last_server_id += kImportGap;
    r.last_table_id += kImportGap;
  }));
  if (transactions + kImportGap > wire::kMaxTerm) {
    return {StatusCode::kUnsupported, "the metadata has been imported too often"};
  }
  // If the export was made before an earlier import was finished, its restate record is that of the
  // earlier one.
  if (!records.contains(kRestateKey)) {
    records[kRestateKey] =
        encode_record(RestateRecord{transactions, last_server_id}, cluster->format);
    RC_RETURN_IF_ERROR(forget_earlier_import(records, cluster->format));
  }
  return rewrite<RevisionsRecord>(records, kRevisionsKey, cluster->format, [&](RevisionsRecord& r) {
    if (transactions <= ~uint32_t{0}) r.next = std::max(r.next, transactions << 32);
    r.next += kRevisionsGap;
  });
}

Task<Status> import_records(Reactor& reactor, MetadataStore& store, Records records,
                            Time deadline) {
  if (auto sound = format_export(records); !sound) co_return std::move(sound.error());
  if (Status left = leave_gap(records); !left.ok()) co_return left;
  const auto leadership = co_await lead_for_import(reactor, store, deadline);
  Status done =
      leadership ? co_await write_records(reactor, store, std::move(records), *leadership, deadline)
                 : leadership.error();
  co_await store.resign();
  co_return done;
}

}  // namespace ramcloud
