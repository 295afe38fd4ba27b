#include "base/status.h"

#include <fmt/core.h>

namespace ramcloud {

std::string status_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kExists:
      return "EXISTS";
    case StatusCode::kWrongVersion:
      return "WRONG_VERSION";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kUnknownTablet:
      return "UNKNOWN_TABLET";
    case StatusCode::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case StatusCode::kRetry:
      return "RETRY";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case StatusCode::kIndeterminate:
      return "INDETERMINATE";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kNotLeader:
      return "NOT_LEADER";
    case StatusCode::kStaleTerm:
      return "STALE_TERM";
    case StatusCode::kWrongCluster:
      return "WRONG_CLUSTER";
    case StatusCode::kWrongServer:
      return "WRONG_SERVER";
    case StatusCode::kUnsupported:
      return "UNSUPPORTED";
    case StatusCode::kProtocolError:
      return "PROTOCOL_ERROR";
    case StatusCode::kCorrupt:
      return "CORRUPT";
    case StatusCode::kNoSpace:
      return "NO_SPACE";
    case StatusCode::kIoError:
      return "IO_ERROR";
    case StatusCode::kConnectionLost:
      return "CONNECTION_LOST";
    case StatusCode::kInternal:
      return "INTERNAL";
    case StatusCode::kCrashed:
      return "CRASHED";
  }
  return fmt::format("UNKNOWN_{}", static_cast<unsigned>(code));
}

std::string Status::to_string() const {
  if (message_.empty()) return status_name(code_);
  return fmt::format("{}: {}", status_name(code_), message_);
}

}  // namespace ramcloud
