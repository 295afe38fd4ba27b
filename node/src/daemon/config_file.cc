#include "daemon/config_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "coordinator/core/checks.h"

namespace ramcloud::daemon {
namespace {

constexpr size_t kMaxFile = 256u << 10;
constexpr size_t kMaxLine = 4096;

bool is_control(unsigned char byte) {
  return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

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
    if (line.size() > kMaxLine || !is_valid_utf8(line) || std::ranges::any_of(line, is_control)) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("line {}: {} ({} bytes): accepted are at most {} bytes of UTF-8 text "
                              "without control characters",
                              number, quoted(line), line.size(), kMaxLine));
    }
    const size_t equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, std::min(equals, line.size())));
    if (equals == std::string_view::npos || name.empty() || name.front() == '-') {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("line {}: '{}': accepted is NAME=VALUE, where NAME is a flag without "
                              "its dashes",
                              number, line));
    }
    const std::string_view value = trimmed(line.substr(equals + 1));
    if (value.empty()) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("line {}: '{}' has no value; accepted is NAME=VALUE, or no such line",
                              number, name));
    }
    const auto before = std::ranges::find_if(
        lines, [&](const ConfigLine& earlier) { return earlier.name == name; });
    if (before != lines.end()) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("line {}: '{}' is in line {} already; accepted is once", number, name,
                              before->number));
    }
    lines.push_back({number, std::string(name), std::string(value)});
  }
  return lines;
}

Result<std::vector<ConfigLine>> read_config(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    return fail(StatusCode::kIoError, "cannot be read: it is a folder");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFile + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) {
    return fail(StatusCode::kIoError, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFile) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("is longer than {} KiB, the most that is accepted", kMaxFile >> 10));
  }
  return parse_config(text);
}

}  // namespace ramcloud::daemon
