#include "cli/exit_codes.h"

#include <fmt/core.h>

namespace ramcloud::cli {
namespace {

struct Row {
  ExitCode code;
  const char* meaning;
};
constexpr Row kRows[] = {
    {kExitOk, "done"},
    {kExitFailed, "a check failed (for example a corrupt replica), or any failure not named below"},
    {kExitUsage, "wrong usage: an unknown option, a missing or malformed argument or input line"},
    {kExitNotFound, "no such table or key"},
    {kExitUnavailable, "no server could answer before the deadline; nothing was changed"},
    {kExitRefused,
     "refused: a condition failed, the table or object exists already, a limit was reached, or "
     "memory is full"},
    {kExitIndeterminate, "the reply was lost: the change may or may not have happened"},
};

}  // namespace

ExitCode exit_code_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kNotFound:
      return kExitNotFound;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kConnectionLost:
    case StatusCode::kRetry:
    case StatusCode::kUnknownTablet:
    case StatusCode::kNotLeader:
    case StatusCode::kWrongServer:
      return kExitUnavailable;
    case StatusCode::kExists:
    case StatusCode::kWrongVersion:
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfMemory:
    case StatusCode::kNoSpace:
    case StatusCode::kUnsupported:
    case StatusCode::kWrongCluster:
      return kExitRefused;
    case StatusCode::kIndeterminate:
      return kExitIndeterminate;
    case StatusCode::kCancelled:
    case StatusCode::kStaleTerm:
    case StatusCode::kProtocolError:
    case StatusCode::kCorrupt:
    case StatusCode::kIoError:
    case StatusCode::kInternal:
    case StatusCode::kCrashed:
      return kExitFailed;
  }
  return kExitFailed;
}

std::string exit_codes_help() {
  std::string text = "Exit codes:\n";
  for (const Row& row : kRows) {
    text += fmt::format("  {}  {}\n", static_cast<int>(row.code), row.meaning);
  }
  return text;
}

}  // namespace ramcloud::cli
