#include "cli/commands/shell_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

namespace ramcloud::cli {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct Split {
  std::vector<std::string> words;
  bool last_is_open = false;  // the last word ends at the end of the line
  const char* problem = nullptr;
};

Split split(std::string_view line) {
  Split result;
  std::optional<std::string> word;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote != '\'' && c == '\\') {
      if (++i == line.size()) {
        result.problem = "the line ends with a backslash; accepted is a character behind it";
        break;
      }
      if (!word) word.emplace();
      word->push_back(line[i]);
    } else if (quote != 0) {
      word->push_back(c);
    } else if (c == '\'' || c == '"') {
      if (!word) word.emplace();
      quote = c;
    } else if (is_blank(c)) {
      if (word) result.words.push_back(std::move(*word));
      word.reset();
    } else if (c == '#' && !word) {
      return result;
    } else {
      if (!word) word.emplace();
      word->push_back(c);
    }
  }
  if (quote != 0)
    result.problem = "quotes are not closed; accepted is a second quote of the same kind";
  result.last_is_open = word.has_value();
  if (word) result.words.push_back(std::move(*word));
  return result;
}

/// The position in the command line after skipping positional words, and options with their values.
struct Position {
  const CLI::App* app;
  size_t positional = 0;  // number of positional words
  bool wants_value = false;
};

Position position_after(const CLI::App& root, const std::vector<std::string>& words) {
  Position place{&root};
  for (const std::string& word : words) {
    if (place.wants_value) {
      place.wants_value = false;
      continue;
    }
    if (word.size() > 1 && word.front() == '-') {
      const CLI::Option* option = place.app->get_option_no_throw(word);
      if (option == nullptr) option = root.get_option_no_throw(word);
      place.wants_value = option != nullptr && option->get_items_expected_max() > 0;
      continue;
    }
    // Names of commands, not get_subcommand_no_throw(): that one is not const.
    const auto commands = place.app->get_subcommands(
        [&word](const CLI::App* command) { return command->get_name() == word; });
    if (!commands.empty()) {
      place = {commands.front()};
    } else {
      ++place.positional;
    }
  }
  return place;
}

void add_long_options(const CLI::App& app, std::vector<std::string>& to) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) to.push_back("--" + name);
  }
}

}  // namespace

Result<std::vector<std::string>> split_words(std::string_view line) {
  Split result = split(line);
  if (result.problem != nullptr) return fail(StatusCode::kInvalidArgument, result.problem);
  return std::move(result.words);
}

std::string quote_word(std::string_view word) {
  if (!word.empty() && word.find_first_of(" \t\r\n'\"\\#") == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

PartialLine split_partial(std::string_view line) {
  Split result = split(line);
  PartialLine partial;
  partial.open = result.problem != nullptr;
  if (result.last_is_open) {
    partial.current = std::move(result.words.back());
    result.words.pop_back();
  }
  partial.before = std::move(result.words);
  return partial;
}

std::vector<std::string> complete_words(const CLI::App& app, const PartialLine& line,
                                        const std::function<std::vector<std::string>()>& tables) {
  if (line.open) return {};
  const Position place = position_after(app, line.before);
  std::vector<std::string> all;
  if (place.wants_value) return {};
  if (line.current.starts_with("-")) {
    add_long_options(*place.app, all);
    if (place.app != &app) add_long_options(app, all);
  } else if (const auto commands = place.app->get_subcommands([](const CLI::App*) { return true; });
             !commands.empty()) {
    if (place.positional > 0) return {};  // a word that is not a command
    for (const CLI::App* command : commands) all.push_back(command->get_name());
  } else {
    size_t nth = 0;
    for (const CLI::Option* option : place.app->get_options()) {
      if (!option->get_positional() || nth++ != place.positional) continue;
      if (option->get_name(true) == "TABLE") all = tables();
    }
  }
  std::erase_if(all, [&](const std::string& word) { return !word.starts_with(line.current); });
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

}  // namespace ramcloud::cli
