// The values of `ramcloudd`'s flags: each is parsed from text, and has a text. The error message of a
// parser says what is accepted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "runtime/posix_disk.h"
#include "server/cleaning_options.h"

namespace ramcloud::daemon {

template <typename T>
using ParserOf = std::function<Result<T>(const std::string&)>;

inline Result<std::string> as_is(const std::string& text) {
  return text;
}

/// Parses a host without a port: a name, IPv4, or IPv6 with or without brackets (removed in the
/// result).
Result<std::string> parse_host(const std::string& text);
Result<std::string> parse_folder(const std::string& text);

/// Whole numbers, both bounds included.
ParserOf<uint32_t> between(uint32_t low, uint32_t high);
ParserOf<std::optional<uint32_t>> optional_count(uint32_t low, uint32_t high);
ParserOf<uint64_t> size_at_least(uint64_t low);

/// Microseconds, or -1 to spin for ever.
Result<Duration> parse_poll(const std::string& text);
/// Both bounds included.
ParserOf<Duration> duration_between(Duration low, Duration high);
Result<Duration> parse_flush_interval(const std::string& text);
/// Exact text that flags accept: "30s". Sizes: base/text.h.
std::string exact_duration(Duration d);

/// --durability: true for synced.
Result<bool> parse_durability(const std::string& text);
/// --huge-pages: the size of a page, 0 for none.
Result<uint64_t> parse_huge_pages(const std::string& text);

Result<DiskIo> parse_disk_io(const std::string& text);
const char* disk_io_name(DiskIo io);
Result<DirectIo> parse_direct_io(const std::string& text);
const char* direct_io_name(DirectIo direct);

Result<server::CleaningLevels> parse_levels(const std::string& text);
const char* cleaning_levels_name(server::CleaningLevels levels);
/// The policy for --cleaner-policy.
Result<log::CleaningPolicy> parse_policy(const std::string& text);
const char* cleaning_policy_name(log::CleaningPolicy policy);

/// A value that need not be given.
template <typename T>
auto optional_of(Result<T> (*parse)(std::string_view)) {
  return [parse](const std::string& text) -> Result<std::optional<T>> {
    auto value = parse(text);
    if (!value) return fail(std::move(value.error()));
    return std::optional<T>(std::move(*value));
  };
}

}  // namespace ramcloud::daemon
