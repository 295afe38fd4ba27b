// Splits a line of `ramcloud shell` into words, and completes it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
}

namespace ramcloud::cli {

/// Words as a POSIX shell splits them: separated by blanks; '…' keeps everything, in "…" and
/// outside a backslash keeps the next character; # at the begin of a word starts a comment. Nothing
/// is expanded. INVALID_ARGUMENT: quotes that are not closed, or a backslash at the end.
Result<std::vector<std::string>> split_words(std::string_view line);

/// Quotes the word so that split_words() returns it.
std::string quote_word(std::string_view word);

/// The line up to the cursor.
struct PartialLine {
  std::vector<std::string> before;  // whole words
  std::string current;              // the word at the cursor, perhaps empty
  bool open = false;                // inside quotes: nothing is completed there
};
PartialLine split_partial(std::string_view line);

/// Completions of the current word, sorted: commands, options, or, for a TABLE argument, the names
/// from `tables`.
std::vector<std::string> complete_words(const CLI::App& app, const PartialLine& line,
                                        const std::function<std::vector<std::string>()>& tables);

}  // namespace ramcloud::cli
