// Whether a failed attempt may have been executed. This is the only place that decides which calls
// may be repeated.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud {

enum class Outcome : uint8_t {
  kFinal,      // the answer; a retry would give the same
  kNotDone,    // certainly not executed: any call may be retried
  kMaybeDone,  // perhaps executed: only calls that are safe to repeat may be retried
};

constexpr Outcome outcome_of(StatusCode code) {
  switch (code) {
    case StatusCode::kUnknownTablet:
    case StatusCode::kRetry:
    case StatusCode::kUnavailable:  // never sent, or the peer refused because it needs another
                                    // server
    case StatusCode::kNotLeader:
    case StatusCode::kWrongServer:  // the hello was refused
    case StatusCode::kStaleTerm:
    case StatusCode::kCrashed:  // a zombie refuses everything
      return Outcome::kNotDone;
    case StatusCode::kConnectionLost:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
    case StatusCode::kProtocolError:  // there was an answer, but it cannot be decoded
      return Outcome::kMaybeDone;
    default:
      return Outcome::kFinal;
  }
}

/// The same for a call to a server. WRONG_CLUSTER from a server only means that its address was
/// reused by another cluster; only coordinators decide whether the cluster is wrong.
constexpr Outcome outcome_at_server(StatusCode code) {
  return code == StatusCode::kWrongCluster ? Outcome::kNotDone : outcome_of(code);
}

/// The timeout of one attempt of a call that is safe to repeat: a lost message costs this, not the
/// whole deadline. It rises, so that an overloaded server does not get more and more requests.
constexpr Duration attempt_timeout(int attempt) {
  return std::chrono::seconds(1) * (1 << std::min(attempt, 3));
}

/// The caller's error when the deadline passed without an answer.
inline Status out_of_time(const Status& last, const std::string& where) {
  const StatusCode code =
      last == StatusCode::kRetry ? StatusCode::kDeadlineExceeded : StatusCode::kUnavailable;
  return {code,
          fmt::format("{}: no answer in time; the last attempt said: {}", where, last.to_string())};
}

/// Of so many refusals in a row, the last one asks for a new tablet map.
inline constexpr int kRefusalsBeforeNewMap = 16;

/// True if a new tablet map may help. After the first lost connection it only reconnects, because
/// the server is usually still there. A silent server may have lost its tablets meanwhile. RETRY
/// mostly means that the server is busy, so it asks seldom, about every two seconds of a call. But
/// a server that is cut off from its backups says RETRY to every change, and its tablets may have
/// another owner. `attempt` counts the attempts of the call before this one, `in_vain` those in a
/// row in which the server did nothing.
constexpr bool wants_new_map(StatusCode code, int attempt, int in_vain) {
  switch (code) {
    case StatusCode::kRetry:
      return in_vain % kRefusalsBeforeNewMap == kRefusalsBeforeNewMap - 1;
    case StatusCode::kConnectionLost:
      return attempt > 0;
    default:
      return true;
  }
}

}  // namespace ramcloud
