#include "cli/usage.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "cli/formats/output.h"
#include "coordinator/core/checks.h"

namespace ramcloud::cli {
namespace {

/// The innermost command that was given; `path` gets its full name.
const CLI::App* last_command(const CLI::App* app, std::string& path) {
  path = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    path += " " + app->get_name();
  }
  return app;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(one->get_name());
  }
  return names;
}

/// The edit distance of two words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// The name that is closest to a mistyped `word`; empty: none is close.
std::string meant(const std::string& word, const std::vector<std::string>& names) {
  static const std::map<std::string, std::string, std::less<>> kOtherNames = {
      {"delete", "del"},     {"rm", "del"},        {"remove", "del"},     {"set", "put"},
      {"write", "put"},      {"read", "get"},      {"ls", "table list"},  {"tables", "table list"},
      {"increment", "incr"}, {"multiget", "mget"}, {"list", "table list"}};
  const auto other = kOtherNames.find(word);
  if (other != kOtherNames.end() &&
      std::ranges::count(names, other->second.substr(0, other->second.find(' '))) > 0) {
    return other->second;
  }
  const auto nearest = std::ranges::min_element(
      names, {}, [&](const std::string& name) { return distance(word, name); });
  if (nearest == names.end() || distance(word, *nearest) > std::max<size_t>(1, word.size() / 3)) {
    return {};
  }
  return *nearest;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string not_expected(const CLI::App* app) {
  std::string path;
  const CLI::App* command = last_command(app, path);
  const std::vector<std::string> extras = app->remaining(true);
  const std::string first = extras.empty() ? std::string() : extras.front();
  const std::vector<std::string> names = commands_of(*command);
  if (names.empty() || first.starts_with('-')) {
    return fmt::format("'{}' is not accepted by '{}'", printable(first), path);
  }
  const std::string near = meant(first, names);
  return fmt::format(
      "'{}' is not a command; {}", printable(first),
      near.empty() ? "accepted are " + joined(names) : "did you mean '" + near + "'?");
}

}  // namespace

CLI::Validator positive() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        uint64_t number = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (code == std::errc() && end == text.data() + text.size() && number > 0) return {};
        return fmt::format("it is '{}'; accepted is a whole number from 1 to {}", printable(text),
                           std::numeric_limits<uint64_t>::max());
      },
      "");
}

CLI::Validator recovery_id() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const std::string wrong = positive()(text);
        return wrong.empty() ? wrong : wrong + "; `ramcloud recovery list` shows the ids";
      },
      "");
}

CLI::Validator recorded_text(size_t min) {
  return CLI::Validator(
      [min](const std::string& text) -> std::string {
        constexpr size_t kMost = 255;
        const Status good = check_printable("value", text, min, kMost);
        return good.ok() ? std::string() : good.message();
      },
      "");
}

CLI::Validator interval() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        const auto parsed = parse_duration(text);
        if (!parsed) return parsed.error().message();
        return *parsed >= 100ms && *parsed <= std::chrono::hours(1)
                   ? std::string()
                   : fmt::format("interval '{}': accepted are 100ms to 1h", text);
      },
      "");
}

std::string usage_failure(const CLI::App* app, const CLI::Error& error) {
  std::string path;
  last_command(app, path);
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  return fmt::format("ramcloud: {}\nRun '{} --help' for what is accepted.\n",
                     extras ? not_expected(app) : error.what(), path);
}

std::string missing_command(const CLI::App& app) {
  std::string path;
  const CLI::App* command = last_command(&app, path);
  return "a command is required; accepted are " + joined(commands_of(*command));
}

}  // namespace ramcloud::cli
