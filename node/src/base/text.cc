#include "base/text.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace ramcloud {
namespace {

struct Unit {
  std::string_view suffix;
  uint64_t factor;
};

constexpr Unit kSizeUnits[] = {
    {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30},
    {"TiB", 1ull << 40}, {"Ki", 1ull << 10},  {"Mi", 1ull << 20},
    {"Gi", 1ull << 30},  {"Ti", 1ull << 40},  {"", 1},
};
constexpr Unit kDurationUnits[] = {
    {"ns", 1},
    {"us", 1'000},
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
};

/// Splits a whole number off the text; false if the text does not begin with a digit, or the number
/// overflows.
bool split_number(std::string_view text, uint64_t& number, std::string_view& rest) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return false;
  rest = text.substr(static_cast<size_t>(end - text.data()));
  return true;
}

template <size_t N>
bool apply_unit(const Unit (&units)[N], std::string_view suffix, uint64_t& number) {
  for (const auto& unit : units) {
    if (unit.suffix == suffix) return !__builtin_mul_overflow(number, unit.factor, &number);
  }
  return false;
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
  uint64_t number = 0;
  std::string_view suffix;
  if (split_number(text, number, suffix) && apply_unit(kSizeUnits, suffix, number)) return number;
  return fail(
      StatusCode::kInvalidArgument,
      fmt::format("size '{}': accepted are bytes or a whole number with KiB, MiB, GiB or TiB "
                  "(for example 256MiB)",
                  text));
}

std::string exact_size(uint64_t bytes) {
  constexpr uint64_t kMiB = 1u << 20;
  return bytes % kMiB == 0 ? fmt::format("{}MiB", bytes / kMiB) : std::to_string(bytes);
}

std::string format_size(uint64_t bytes) {
  constexpr std::string_view kNames[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t i = 0;
  while (value >= 1024 && i + 1 < std::size(kNames)) {
    value /= 1024;
    ++i;
  }
  return i == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kNames[i]);
}

Result<Duration> parse_duration(std::string_view text) {
  uint64_t number = 0;
  std::string_view suffix;
  if (split_number(text, number, suffix) && apply_unit(kDurationUnits, suffix, number) &&
      number <= static_cast<uint64_t>(Duration::max().count())) {
    return Duration(static_cast<Duration::rep>(number));
  }
  return fail(StatusCode::kInvalidArgument,
              fmt::format("duration '{}': accepted is a whole number with ns, us, ms, s, m or h "
                          "(for example 500ms)",
                          text));
}

std::string format_duration(Duration d) {
  const double ns = static_cast<double>(d.count());
  if (d < 1us) return fmt::format("{} ns", d.count());
  if (d < 1ms) return fmt::format("{:.1f} us", ns / 1e3);
  if (d < 1s) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.1f} s", ns / 1e9);
}

std::string HostPort::to_string() const {
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

bool HostPort::is_wildcard() const {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_aton(host.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  if (::inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) v6.s6_addr[10] = v6.s6_addr[11] = 0;
  return IN6_IS_ADDR_UNSPECIFIED(&v6);
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto refuse = [&] {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("address '{}': accepted is host:port, for example 127.0.0.1:11100 or "
                            "[::1]:11100",
                            text));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return refuse();
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return refuse();
  }
  uint64_t port = 0;
  std::string_view rest;
  const auto allowed = [](char c) {
    return c > 0x20 && c < 0x7f && std::string_view(",=/[]").find(c) == std::string_view::npos;
  };
  if (host.empty() || !split_number(port_text, port, rest) || !rest.empty() || port > 65535 ||
      !std::ranges::all_of(host, allowed)) {
    return refuse();
  }
  return HostPort{std::string(host), static_cast<uint16_t>(port)};
}

Result<std::vector<HostPort>> parse_host_port_list(std::string_view text) {
  std::vector<HostPort> list;
  while (true) {
    const size_t comma = text.find(',');
    auto one = parse_host_port(text.substr(0, comma));
    if (!one) return fail(std::move(one.error()));
    list.push_back(std::move(*one));
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

std::string Locator::to_string() const {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? fmt::format("{}:host=[{}],port={}", transport, address.host, address.port)
            : fmt::format("{}:host={},port={}", transport, address.host, address.port);
}

Result<Locator> parse_locator(std::string_view text) {
  const auto refuse = [&] {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("locator '{}': accepted is TRANSPORT:host=HOST,port=PORT, for example "
                            "tcp:host=127.0.0.1,port=11200",
                            text));
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return refuse();
  Locator locator{std::string(text.substr(0, colon)), {}};
  std::string_view rest = text.substr(colon + 1);
  const size_t comma = rest.rfind(",port=");
  if (!rest.starts_with("host=") || comma == std::string_view::npos) return refuse();
  const auto host = rest.substr(5, comma - 5);
  auto address = parse_host_port(std::string(host) + ":" + std::string(rest.substr(comma + 6)));
  if (!address) return refuse();
  locator.address = std::move(*address);
  if (locator.transport != "tcp" && locator.transport != "sim") return refuse();
  return locator;
}

std::string format_uuid(const std::array<uint8_t, 16>& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

namespace {
/// Length of the valid UTF-8 sequence at the begin of `s`, 0 if there is none.
size_t utf8_sequence(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 && lead <= 0xf4  ? 4
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                                                      : 0;
  if (length == 0 || s.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = byte(1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
      (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
    return 0;  // overlong, surrogate, or above U+10FFFF
  }
  return length;
}
}  // namespace

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t n = utf8_sequence(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t n = utf8_sequence(text);
    const char c = text[0];
    if (n == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out.append(text.substr(0, n));
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out += '"';
}

}  // namespace ramcloud
