#include "base/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>

#include "base/log_context.h"
#include "base/text.h"

namespace ramcloud {
namespace {

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v";

std::atomic<LogFormat> format{LogFormat::kText};

std::function<std::string()>& log_context() {
  static std::function<std::string()> instance;
  return instance;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto created = std::make_shared<spdlog::logger>(
        "ramcloud", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern(kTextPattern, spdlog::pattern_time_type::utc);
    created->flush_on(spdlog::level::debug);
    return created;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string as_text(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const auto& field : fields) {
    line.append(" ").append(field.name).append("=");
    const bool quote = field.quoted && field.value.find_first_of(" \"\n=") != std::string::npos;
    line.append(quote ? json_string(field.value) : field.value);
  }
  return line;
}

std::string as_json(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line = "\"event\":" + json_string(event);
  for (const auto& field : fields) {
    line.append(",").append(json_string(field.name)).append(":");
    line.append(field.quoted ? json_string(field.value) : field.value);
  }
  return line;
}

}  // namespace

void set_log_context(std::function<std::string()> context) {
  logger().set_pattern(context ? "%v" : kTextPattern, spdlog::pattern_time_type::utc);
  log_context() = std::move(context);
}

void set_log_level(LogLevel level) {
  logger().set_level(to_spdlog(level));
}

LogLevel log_level() {
  switch (logger().level()) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::info:
      return LogLevel::kInfo;
    case spdlog::level::warn:
      return LogLevel::kWarn;
    default:
      return LogLevel::kError;
  }
}

std::string_view log_level_name(LogLevel level) {
  constexpr std::string_view kNames[] = {"debug", "info", "warn", "error"};
  return kNames[static_cast<size_t>(level)];
}

void set_log_format(LogFormat f) {
  format = f;
  if (f == LogFormat::kJson) {
    logger().set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})",
                         spdlog::pattern_time_type::utc);
  }
}

Result<LogLevel> parse_log_level(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warn") return LogLevel::kWarn;
  if (text == "error") return LogLevel::kError;
  return fail(StatusCode::kInvalidArgument,
              "log level '" + std::string(text) + "': accepted are debug, info, warn, error");
}

Result<LogFormat> parse_log_format(std::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return fail(StatusCode::kInvalidArgument,
              "log format '" + std::string(text) + "': accepted are text, json");
}

void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  auto& out = logger();
  const auto spdlog_level = to_spdlog(level);
  if (!out.should_log(spdlog_level)) return;
  if (log_context()) return out.log(spdlog_level, log_context()() + as_text(event, fields));
  out.log(spdlog_level,
          format == LogFormat::kJson ? as_json(event, fields) : as_text(event, fields));
}

void fatal(std::string_view event, std::initializer_list<LogField> fields) {
  log_event(LogLevel::kError, std::string("FATAL ") + std::string(event), fields);
  logger().flush();
  std::abort();
}

}  // namespace ramcloud
