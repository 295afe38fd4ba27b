// Text that people write and read: sizes, durations, host:port, locators, UUIDs, JSON strings.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud {

/// "256MiB", "4KiB", "1Gi", "1048576" (bytes). INVALID_ARGUMENT: the message says what is accepted.
Result<uint64_t> parse_size(std::string_view text);
/// "256.0 MiB".
std::string format_size(uint64_t bytes);
/// Exact text that parse_size() accepts: "64MiB", "1048577".
std::string exact_size(uint64_t bytes);

/// "10ms", "500us", "2s", "1m".
Result<Duration> parse_duration(std::string_view text);
/// "1.5 ms".
std::string format_duration(Duration d);

struct HostPort {
  std::string host;  // name, IPv4, or IPv6 without brackets
  uint16_t port = 0;
  /// "host:port", IPv6 in brackets.
  std::string to_string() const;
  /// True for 0.0.0.0 and [::]: one can listen on it (all addresses of this machine), but not
  /// connect to it.
  bool is_wildcard() const;
  bool operator==(const HostPort&) const = default;
};
Result<HostPort> parse_host_port(std::string_view text);
/// "a:1,b:2"; at least one.
Result<std::vector<HostPort>> parse_host_port_list(std::string_view text);

/// The address of a server: "tcp:host=H,port=P".
struct Locator {
  std::string transport;  // "tcp" or "sim"
  HostPort address;
  std::string to_string() const;
  bool operator==(const Locator&) const = default;
};
Result<Locator> parse_locator(std::string_view text);

/// 8-4-4-4-12 lower-case hexadecimal.
std::string format_uuid(const std::array<uint8_t, 16>& uuid);

/// With the quotes; bytes that are not valid UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
bool is_valid_utf8(std::string_view text);

}  // namespace ramcloud
