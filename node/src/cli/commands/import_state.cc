#include "cli/commands/import_state.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/hash.h"
#include "cli/formats/output.h"

namespace ramcloud::cli {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kHashedBytes = 64 << 10;
constexpr int kStateVersion = 1;

Status system_error(const std::string& what) {
  return {StatusCode::kIoError, what + ": " + std::strerror(errno)};
}

Result<uint64_t> hash_of(const std::string& path, uint64_t from, uint64_t to) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(to - from, '\0');
  file.seekg(static_cast<std::streamoff>(from));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file && !bytes.empty()) return fail(system_error("'" + path + "' cannot be read"));
  return key_hash(0, bytes);
}

ordered_json to_json(const ImportState& state) {
  const ImportIdentity& id = state.identity;
  return {{"ramcloud_import", kStateVersion},
          {"file", printable(id.file)},
          {"file_bytes", id.file_bytes},
          {"cluster", id.cluster},
          {"table", id.table},
          {"table_id", id.table_id},
          {"format", id.format},
          {"acked_bytes", state.acked.bytes},
          {"acked_lines", state.acked.lines},
          {"prefix_hash", state.prefix_hash},
          {"imported", state.imported},
          {"whole", state.whole}};
}

}  // namespace

uint64_t AckedPrefix::started(const FilePosition& end) {
  under_way_.push_back({end});
  return first_ + under_way_.size() - 1;
}

void AckedPrefix::done(uint64_t ticket) {
  under_way_[ticket - first_].done = true;
  while (!under_way_.empty() && under_way_.front().done) {
    acked_ = under_way_.front().end;
    under_way_.pop_front();
    ++first_;
    ++records_;
  }
}

Status identify_file(const std::string& path, ImportIdentity& identity) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return system_error("'" + path + "'");
  if (!S_ISREG(info.st_mode)) {
    return {StatusCode::kInvalidArgument,
            "'" + path + "' is not a plain file; accepted with --resume is one"};
  }
  identity.file = path;
  identity.file_bytes = static_cast<uint64_t>(info.st_size);
  return {};
}

Result<uint64_t> prefix_hash(const std::string& path, uint64_t offset) {
  const uint64_t some = std::min(offset, kHashedBytes);
  auto head = hash_of(path, 0, some);
  if (!head) return head;
  auto tail = hash_of(path, offset - some, offset);
  if (!tail) return tail;
  HashMixer both;
  both.add(*head);
  both.add(*tail);
  return both.value();
}

Result<std::optional<ImportState>> load_state(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::optional<ImportState>();
  const auto refuse = [&path](const std::string& why) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("'{}' {}; accepted is a file that an earlier --resume wrote, or none",
                            path, why));
  };
  // Reading a folder would throw.
  if (!std::filesystem::is_regular_file(path, error)) return refuse("is not a plain file");
  std::ifstream file(path, std::ios::binary);
  const auto json = ordered_json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("ramcloud_import")) {
    return refuse("is not the state of an import");
  }
  if (json["ramcloud_import"] != kStateVersion) return refuse("is of another version");
  try {
    ImportState state;
    ImportIdentity& id = state.identity;
    json.at("file").get_to(id.file);
    json.at("file_bytes").get_to(id.file_bytes);
    json.at("cluster").get_to(id.cluster);
    json.at("table").get_to(id.table);
    json.at("table_id").get_to(id.table_id);
    json.at("format").get_to(id.format);
    json.at("acked_bytes").get_to(state.acked.bytes);
    json.at("acked_lines").get_to(state.acked.lines);
    json.at("prefix_hash").get_to(state.prefix_hash);
    json.at("imported").get_to(state.imported);
    json.at("whole").get_to(state.whole);
    if (state.acked.bytes > id.file_bytes) return refuse("has more acked_bytes than file_bytes");
    return std::optional(std::move(state));
  } catch (const nlohmann::json::exception& e) {
    return refuse(std::string("is damaged: ") + e.what());
  }
}

Status save_state(const std::string& path, const ImportState& state) {
  return replace_file(path, to_json(state).dump(2) + "\n");
}

Status check_same_import(const ImportState& state, const ImportIdentity& now) {
  const ImportIdentity& then = state.identity;
  const auto differs = [](const std::string& what, const auto& before, const auto& is) -> Status {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("the import was begun with {} '{}', and this is '{}'; accepted is the same, "
                    "or a new state file",
                    what, before, is)};
  };
  if (then.cluster != now.cluster) return differs("the cluster", then.cluster, now.cluster);
  if (then.table != now.table) return differs("the table", then.table, now.table);
  if (then.table_id != now.table_id) {
    return differs("the table id (it was dropped and re-created)", then.table_id, now.table_id);
  }
  if (then.format != now.format) return differs("the format", then.format, now.format);
  if (then.file_bytes != now.file_bytes) {
    return differs("a file of this many bytes:", then.file_bytes, now.file_bytes);
  }
  auto prefix = prefix_hash(now.file, state.acked.bytes);
  if (!prefix) return std::move(prefix.error());
  if (state.prefix_hash != *prefix) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the import was begun with '{}', and '{}' has other contents; accepted is "
                        "the same file, or a new state file",
                        then.file, now.file)};
  }
  return {};
}

}  // namespace ramcloud::cli
