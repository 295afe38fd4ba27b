#include "cli/commands/memory_view.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace ramcloud::cli {

std::optional<uint64_t> live_bytes(const wire::ServerStats& stats) {
  // Live bytes were added in the same version as the size of the hash table, which is never 0 on a
  // master.
  if (stats.hash_table_bytes == 0) return std::nullopt;
  return std::min(stats.log_bytes_live, stats.log_bytes_used);
}

std::string live_text(const wire::ServerStats& stats) {
  const auto bytes = live_bytes(stats);
  return bytes ? format_size(*bytes) : "-";
}

std::optional<double> live_share(const wire::ServerStats& stats) {
  const auto bytes = live_bytes(stats);
  if (!bytes) return std::nullopt;
  if (stats.log_bytes_total == 0) return 0;
  return static_cast<double>(*bytes) / static_cast<double>(stats.log_bytes_total);
}

std::string log_text(const wire::ServerStats& stats) {
  std::string text =
      fmt::format("{} / {}", format_size(stats.log_bytes_used), format_size(stats.log_bytes_total));
  if (!stats.log_resized()) text += " -> " + format_size(stats.log_bytes_target);
  return text;
}

}  // namespace ramcloud::cli
