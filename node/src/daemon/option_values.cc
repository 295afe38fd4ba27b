#include "daemon/option_values.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace ramcloud::daemon {
namespace {

/// Far above any machine's memory, and a sum of a few such sizes does not overflow.
constexpr uint64_t kMaxBytes = uint64_t{64} << 40;

Result<uint32_t> parse_count(const std::string& text, uint32_t low, uint32_t high) {
  size_t used = 0;
  unsigned long value = 0;
  try {
    value = std::stoul(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (text.empty() || used != text.size() || text[0] == '-' || value < low || value > high) {
    return fail(
        StatusCode::kInvalidArgument,
        fmt::format("value '{}': accepted is a whole number from {} to {}", text, low, high));
  }
  return static_cast<uint32_t>(value);
}

/// The value of `all` with this name.
template <typename E>
Result<E> parse_name(const std::string& text, std::initializer_list<E> all, const char* (*name)(E),
                     const char* accepted) {
  for (const E one : all) {
    if (text == name(one)) return one;
  }
  return fail(StatusCode::kInvalidArgument,
              fmt::format("value '{}': accepted are {}", text, accepted));
}

}  // namespace

Result<std::string> parse_host(const std::string& text) {
  in6_addr v6{};
  const bool bare_v6 = ::inet_pton(AF_INET6, text.c_str(), &v6) == 1;
  const auto address = parse_host_port((bare_v6 ? "[" + text + "]" : text) + ":0");
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view(".:-_").find(char(c)) != std::string_view::npos;
  };
  if (!address || !std::ranges::all_of(address->host, allowed)) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("host '{}': accepted is a name or an address without a port, for "
                            "example 10.0.0.1 or fd00::1",
                            text));
  }
  return address->host;
}

ParserOf<uint32_t> between(uint32_t low, uint32_t high) {
  return [low, high](const std::string& text) { return parse_count(text, low, high); };
}

ParserOf<std::optional<uint32_t>> optional_count(uint32_t low, uint32_t high) {
  return [low, high](const std::string& text) -> Result<std::optional<uint32_t>> {
    auto count = parse_count(text, low, high);
    if (!count) return fail(std::move(count.error()));
    return std::optional(*count);
  };
}

Result<Duration> parse_poll(const std::string& text) {
  if (text == "-1") return Duration(-1);
  auto micros = parse_count(text, 0, 1'000'000);
  if (!micros) {
    return fail(
        StatusCode::kInvalidArgument,
        fmt::format("value '{}': accepted are 0 to 1000000 (microseconds), or -1 to spin for "
                    "ever",
                    text));
  }
  return std::chrono::microseconds(*micros);
}

ParserOf<Duration> duration_between(Duration low, Duration high) {
  return [low, high](const std::string& text) {
    auto parsed = parse_duration(text);
    if (!parsed || *parsed < low || *parsed > high) {
      return Result<Duration>(fail(StatusCode::kInvalidArgument,
                                   fmt::format("value '{}': accepted are durations from {} to {}",
                                               text, exact_duration(low), exact_duration(high))));
    }
    return parsed;
  };
}

Result<Duration> parse_flush_interval(const std::string& text) {
  auto interval = parse_duration(text);
  if (interval && *interval > 1h) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("value '{}': accepted is at most 1h", text));
  }
  return interval;
}

Result<std::string> parse_folder(const std::string& text) {
  if (!text.empty()) return text;
  return fail(StatusCode::kInvalidArgument, "value '': accepted is the path of a folder");
}

ParserOf<uint64_t> size_at_least(uint64_t low) {
  return [low](const std::string& text) -> Result<uint64_t> {
    auto size = parse_size(text);
    if (!size) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("{}, at least {}", size.error().message(), format_size(low)));
    }
    if (*size < low || *size > kMaxBytes) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("size '{}': accepted is at least {}, at most {}", text,
                              format_size(low), format_size(kMaxBytes)));
    }
    return size;
  };
}

Result<bool> parse_durability(const std::string& text) {
  if (text == "buffered") return false;
  if (text == "synced") return true;
  return fail(StatusCode::kInvalidArgument,
              fmt::format("value '{}': accepted are buffered and synced", text));
}

Result<DiskIo> parse_disk_io(const std::string& text) {
  return parse_name<DiskIo>(text, {DiskIo::kAuto, DiskIo::kUring, DiskIo::kThreads}, disk_io_name,
                            "auto, io_uring and threads");
}

Result<DirectIo> parse_direct_io(const std::string& text) {
  return parse_name<DirectIo>(text, {DirectIo::kAuto, DirectIo::kAlways, DirectIo::kNever},
                              direct_io_name, "auto, always and never");
}

Result<uint64_t> parse_huge_pages(const std::string& text) {
  if (text == "none") return uint64_t{0};
  if (text == "2Mi") return uint64_t{2} << 20;
  if (text == "1Gi") return uint64_t{1} << 30;
  return fail(StatusCode::kInvalidArgument,
              fmt::format("value '{}': accepted are none, 2Mi and 1Gi", text));
}

Result<server::CleaningLevels> parse_levels(const std::string& text) {
  using Levels = server::CleaningLevels;
  return parse_name<Levels>(text, {Levels::kTwo, Levels::kOne, Levels::kOff}, cleaning_levels_name,
                            "two-level, one-level and off");
}

Result<log::CleaningPolicy> parse_policy(const std::string& text) {
  using Policy = log::CleaningPolicy;
  return parse_name<Policy>(
      text, {Policy::kCostBenefit, Policy::kObjectAge, Policy::kGreedy, Policy::kLfs},
      cleaning_policy_name, "cost-benefit, object-age, greedy and lfs");
}

const char* cleaning_levels_name(server::CleaningLevels levels) {
  switch (levels) {
    case server::CleaningLevels::kOff:
      return "off";
    case server::CleaningLevels::kOne:
      return "one-level";
    case server::CleaningLevels::kTwo:
      return "two-level";
  }
  return "unknown";
}

const char* cleaning_policy_name(log::CleaningPolicy policy) {
  switch (policy) {
    case log::CleaningPolicy::kCostBenefit:
      return "cost-benefit";
    case log::CleaningPolicy::kObjectAge:
      return "object-age";
    case log::CleaningPolicy::kGreedy:
      return "greedy";
    case log::CleaningPolicy::kLfs:
      return "lfs";
  }
  return "";
}

const char* disk_io_name(DiskIo io) {
  switch (io) {
    case DiskIo::kAuto:
      break;
    case DiskIo::kUring:
      return "io_uring";
    case DiskIo::kThreads:
      return "threads";
  }
  return "auto";
}

const char* direct_io_name(DirectIo direct) {
  switch (direct) {
    case DirectIo::kAuto:
      break;
    case DirectIo::kAlways:
      return "always";
    case DirectIo::kNever:
      return "never";
  }
  return "auto";
}

std::string exact_duration(Duration d) {
  if (d % 1s == Duration::zero()) return fmt::format("{}s", d / 1s);
  return d % 1ms == Duration::zero() ? fmt::format("{}ms", d / 1ms) : fmt::format("{}us", d / 1us);
}

}  // namespace ramcloud::daemon
