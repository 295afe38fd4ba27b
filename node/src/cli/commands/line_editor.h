// Reads lines from a terminal with editing, history and completion (libedit).
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ramcloud::cli {

class LineEditor {
 public:
  /// Completions of the last word of a text: whole words, as typed.
  struct Completions {
    size_t word_begin = 0;  // start of the last word in the text
    std::vector<std::string> words;
  };
  using Complete = std::function<Completions(std::string_view before_cursor)>;

  /// `history_file` empty: history is kept for this run only. The streams are a terminal's.
  LineEditor(std::string prompt, std::string history_file, Complete complete, FILE* in = stdin,
             FILE* out = stdout, FILE* err = stderr);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// The next line without its line end; adds it to the history. None at the end of the input.
  /// Ctrl-C discards the line and returns an empty one.
  std::optional<std::string> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The path of the history: ramcloud/history in $XDG_STATE_HOME or ~/.local/state; creates the
/// folder. Empty if that is not possible.
std::string history_path();

}  // namespace ramcloud::cli
