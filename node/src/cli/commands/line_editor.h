// Lines typed at a terminal: editing, history, completion (libedit).
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
  /// What the last word of a text may become: whole words, as they would be typed.
  struct Completions {
    size_t word_begin = 0;  // of the last word in the text
    std::vector<std::string> words;
  };
  using Complete = std::function<Completions(std::string_view before_cursor)>;

  /// `history_file` empty: history is kept for this run only. The streams are a terminal's.
  LineEditor(std::string prompt, std::string history_file, Complete complete, FILE* in = stdin,
             FILE* out = stdout, FILE* err = stderr);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// The next line without its end, and into the history with it; nothing at the end of the input.
  /// Ctrl-C gives up the line and gives an empty one.
  std::optional<std::string> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Where history is kept: ramcloud/history in $XDG_STATE_HOME, or in ~/.local/state; its folder is
/// made. Empty if there is no place for it.
std::string history_path();

}  // namespace ramcloud::cli
