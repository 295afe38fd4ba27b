// The exit codes of `ramcloud`: one table for --help and for the conversions.
#pragma once

#include <string>

#include "base/status.h"

namespace ramcloud::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitNotFound = 3,
  kExitUnavailable = 4,
  kExitRefused = 5,
  kExitIndeterminate = 6,
};

ExitCode exit_code_of(StatusCode code);
/// The table as text for --help, one line for each code.
std::string exit_codes_help();

}  // namespace ramcloud::cli
