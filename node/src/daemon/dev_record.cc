#include "daemon/dev_record.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"

namespace ramcloud::daemon {
namespace {

constexpr uint32_t kMostReplicas = 7;

Result<std::optional<uint32_t>> recorded(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::optional<uint32_t>();
  std::ifstream in(path);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  const auto bad = [&](const std::string& what) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("{}: {}; accepted is {{\"replicas\": 0 to {}}}, or no such file", path,
                            what, kMostReplicas));
  };
  if (!json.is_object()) return bad("it is not a JSON object");
  const auto found = json.find("replicas");
  if (found == json.end()) return bad("it has no \"replicas\"");
  if (!found->is_number_unsigned() || found->get<uint64_t>() > kMostReplicas) {
    return bad("\"replicas\" is " + found->dump());
  }
  return std::optional(found->get<uint32_t>());
}

Status record(const std::string& path, uint32_t replicas) {
  return replace_file(path, nlohmann::json{{"replicas", replicas}}.dump() + "\n");
}

}  // namespace

Result<uint32_t> resolve_replicas(const std::string& dir, uint32_t servers,
                                  std::optional<uint32_t> asked) {
  const std::string path = dir + "/dev.json";
  auto before = recorded(path);
  if (!before) return fail(std::move(before.error()));
  const uint32_t replicas = asked                 ? *asked
                            : before->has_value() ? **before
                                                  : default_replicas(servers);
  if (replicas >= servers) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("--servers: value '{}': the cluster in {} was created with {} replicas "
                            "({}), which need {} servers; accepted are {} or more, or --replicas",
                            servers, dir, replicas, path, replicas + 1, replicas + 1));
  }
  if (*before != replicas) {
    if (Status status = record(path, replicas); !status.ok()) return fail(std::move(status));
  }
  return replicas;
}

}  // namespace ramcloud::daemon
