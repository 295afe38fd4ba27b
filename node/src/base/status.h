// Status: the outcome of an operation. OK costs nothing; an error carries a code and, where a
// person may see it, a message. Result<T> is a value or a Status.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace ramcloud {

/// Error codes, for users and on the wire (docs/formats.md, "Status codes"). Values are part
/// of the protocol: never change or reuse one. What a client does after each is decided in
/// client/outcome.h. The comments are the meanings in docs/reference/errors.md
/// (hack/gen_errors.py).
enum class StatusCode : uint16_t {
  kOk = 0,
  kNotFound = 1,          // no such object or table
  kExists = 2,            // the object or table exists already
  kWrongVersion = 3,      // a condition on the version failed
  kInvalidArgument = 4,   // the request will always fail; the message names field, value, accepted
  kUnknownTablet = 5,     // this server does not own the tablet: refresh the map and retry
  kOutOfMemory = 6,       // log memory is full; reads and deletes still work
  kRetry = 7,             // not possible now; wait retry_after and try again
  kUnavailable = 8,       // the tablet's server is dead, or no server answered before the deadline
  kDeadlineExceeded = 9,  // no answer in time; nothing was changed, or the call may be repeated
  kIndeterminate = 10,    // the reply to a non-idempotent call was lost: it may have happened
  kCancelled = 11,
  kNotLeader = 12,       // this coordinator is a standby; the message names the leader
  kStaleTerm = 13,       // term, revision or epoch of the sender is old; a newer one is known
  kWrongCluster = 14,    // the peer or volume belongs to another cluster
  kWrongServer = 15,     // the peer at this address has another server id now
  kUnsupported = 16,     // unknown opcode or protocol version
  kProtocolError = 17,   // malformed bytes; the connection is closed
  kCorrupt = 18,         // a checksum is wrong
  kNoSpace = 19,         // no free frame on the backup, or the disk is full
  kIoError = 20,         // the device failed
  kConnectionLost = 21,  // the connection broke; whether the call was executed is unknown
  kInternal = 22,        // a bug; the message says where
  kCrashed = 23,         // the sender is listed as crashed and must stop (zombie)
};

/// Upper-case name as users see it, for example "NOT_FOUND"; "UNKNOWN_99" for a code that this
/// version does not know.
std::string status_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code) : code_(code) {}
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  /// "NOT_FOUND: table 'x' does not exist", or "OK".
  std::string to_string() const;

  bool operator==(StatusCode code) const { return code_ == code; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

template <typename T>
using Result = std::expected<T, Status>;

/// Returned from a function with a Result<T> type: `return fail(StatusCode::kNotFound, "...")`.
inline std::unexpected<Status> fail(StatusCode code, std::string message = {}) {
  return std::unexpected<Status>(Status(code, std::move(message)));
}
inline std::unexpected<Status> fail(Status status) {
  return std::unexpected<Status>(std::move(status));
}

}  // namespace ramcloud

/// Leaves the function with the Status if `expr` is not OK.
#define RC_RETURN_IF_ERROR(expr)             \
  do {                                       \
    ::ramcloud::Status rc_status_ = (expr);  \
    if (!rc_status_.ok()) return rc_status_; \
  } while (0)
