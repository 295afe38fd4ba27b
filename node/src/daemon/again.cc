#include "daemon/again.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/logging.h"
#include "base/text.h"

namespace ramcloud::daemon {
namespace {

constexpr Duration kShort = 10s;
constexpr Duration kFirstPause = 100ms;
constexpr uint32_t kMostDoublings = 7;
constexpr Duration kLongestPause = 10s;
/// Passes the count of short lives to the next execution.
constexpr const char* kVariable = "RAMCLOUD_SHORT_LIVES";

uint32_t short_lives_so_far() {
  const char* text = std::getenv(kVariable);
  uint32_t number = 0;
  if (text == nullptr) return 0;
  const std::string_view all(text);
  std::from_chars(all.data(), all.data() + all.size(), number);
  return number;
}

}  // namespace

NextLife next_life(Duration lived, uint32_t short_lives) {
  if (lived >= kShort) return {};
  NextLife next;
  next.short_lives = std::min(short_lives, 1000u) + 1;
  const uint32_t doublings = std::min(next.short_lives - 1, kMostDoublings);
  next.pause = std::min<Duration>(kFirstPause * (1 << doublings), kLongestPause);
  return next;
}

Lifetime::Lifetime() : began_(clock_.now()) {}

Status Lifetime::execute_again(char** argv, StopSignals& signals) const {
  const NextLife next = next_life(clock_.now() - began_, short_lives_so_far());
  log_warn("daemon.starts_again",
           {{"short_lives", next.short_lives}, {"pause", format_duration(next.pause)}});
  if (signals.signalled_within(next.pause)) return {};
  setenv(kVariable, fmt::format("{}", next.short_lives).c_str(), 1);
  execv("/proc/self/exe", argv);
  return {StatusCode::kIoError,
          fmt::format("/proc/self/exe cannot be executed: {}", std::strerror(errno))};
}

}  // namespace ramcloud::daemon
