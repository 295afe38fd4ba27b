// Structured logs: one line for each event, with named fields. `--log-format text|json`; the level
// can be changed while running. Large headers are included only in the .cc file.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ramcloud {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };
enum class LogFormat : uint8_t { kText, kJson };

struct LogField {
  std::string_view name;
  std::string value;
  bool quoted = true;  // JSON: a string, not a number
  LogField(std::string_view n, std::string_view v) : name(n), value(v) {}
  LogField(std::string_view n, const std::string& v) : name(n), value(v) {}
  LogField(std::string_view n, const char* v) : name(n), value(v) {}
  LogField(std::string_view n, const Status& v) : name(n), value(v.to_string()) {}
  LogField(std::string_view n, bool v) : name(n), value(v ? "true" : "false"), quoted(false) {}
  template <std::integral T>
  LogField(std::string_view n, T v) : name(n), value(std::to_string(v)), quoted(false) {}
};

void set_log_level(LogLevel level);
LogLevel log_level();
/// The name that parse_log_level() accepts.
std::string_view log_level_name(LogLevel level);
void set_log_format(LogFormat format);
/// "debug", "info", "warn", "error".
Result<LogLevel> parse_log_level(std::string_view text);
Result<LogFormat> parse_log_format(std::string_view text);

void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields);
inline void log_debug(std::string_view e, std::initializer_list<LogField> f = {}) {
  log_event(LogLevel::kDebug, e, f);
}
inline void log_info(std::string_view e, std::initializer_list<LogField> f = {}) {
  log_event(LogLevel::kInfo, e, f);
}
inline void log_warn(std::string_view e, std::initializer_list<LogField> f = {}) {
  log_event(LogLevel::kWarn, e, f);
}
inline void log_error(std::string_view e, std::initializer_list<LogField> f = {}) {
  log_event(LogLevel::kError, e, f);
}

/// A violated invariant: logs a clear last line and ends the process; recovery is the repair
/// [Ousterhout15 §6].
[[noreturn]] void fatal(std::string_view event, std::initializer_list<LogField> fields = {});

}  // namespace ramcloud
