// The file of --config: one flag with its value on each line, without the dashes. CLI11 reads such
// files too, but knows sections and lists, and its errors name neither the line nor what is accepted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ramcloud::daemon {

struct ConfigLine {
  int number = 0;  // line number, from 1
  std::string name, value;
};

/// Parses NAME=VALUE lines; ignores blanks around both, empty lines, and lines that begin with '#'.
/// INVALID_ARGUMENT names a line that has another form, is not text, or is too long.
Result<std::vector<ConfigLine>> parse_config(std::string_view text);
/// The same for a file of at most 256 KiB. IO_ERROR: it cannot be read.
Result<std::vector<ConfigLine>> read_config(const std::string& path);

}  // namespace ramcloud::daemon
