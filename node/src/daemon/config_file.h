// The file that --config names: a flag and its value a line, without the dashes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ramcloud::daemon {

struct ConfigLine {
  int number = 0;  // in the file, from 1
  std::string name, value;
};

/// NAME=VALUE lines; blanks around both do not count, nor do empty lines and those that begin with
/// '#'. INVALID_ARGUMENT names the line: one that is something else, or no text, or too long.
Result<std::vector<ConfigLine>> parse_config(std::string_view text);
/// The same of a file of at most 256 KiB. IO_ERROR: it cannot be read.
Result<std::vector<ConfigLine>> read_config(const std::string& path);

}  // namespace ramcloud::daemon
