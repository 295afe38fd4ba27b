#include "daemon/config_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ramcloud::daemon {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

Result<std::vector<ConfigLine>> parse_config(std::string_view text) {
  std::vector<ConfigLine> lines;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const size_t equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, std::min(equals, line.size())));
    if (equals == std::string_view::npos || name.empty() || name.front() == '-') {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("line {}: '{}': accepted is NAME=VALUE, where NAME is a flag without "
                              "its dashes",
                              number, line));
    }
    const auto before = std::ranges::find_if(
        lines, [&](const ConfigLine& earlier) { return earlier.name == name; });
    if (before != lines.end()) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("line {}: '{}' is in line {} already; accepted is once", number, name,
                              before->number));
    }
    lines.push_back({number, std::string(name), std::string(trimmed(line.substr(equals + 1)))});
  }
  return lines;
}

Result<std::vector<ConfigLine>> read_config(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    return fail(StatusCode::kIoError, "cannot be read: it is a folder");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    // An empty file gives nothing, which is well.
    if (file && file.peek() == std::ifstream::traits_type::eof()) return std::vector<ConfigLine>{};
    return fail(StatusCode::kIoError, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  return parse_config(text.str());
}

}  // namespace ramcloud::daemon
