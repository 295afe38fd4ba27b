// ramcloud shell: many commands over one connection, typed or from a file.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>

#include "cli/commands/line_editor.h"
#include "cli/commands/shell_words.h"
#include "cli/session.h"

namespace ramcloud::cli {
namespace {

/// How long the names of tables are cached for completion.
constexpr Duration kTablesFresh = 2s;
/// How long completion waits for the names of tables.
constexpr Duration kTabPatience = 500ms;

class Shell {
 public:
  Shell(const CLI::App& app, Session& session) : app_(app), session_(session) {
    given_ = {"ramcloud", "--timeout", session.timeout, "-o", session.json() ? "json" : "table"};
    if (!session.cluster.empty()) given_.insert(given_.end(), {"--cluster", session.cluster});
  }

  /// Runs lines from standard input until one fails (with `keep_going`: to the end). Returns the
  /// exit code of the first failure.
  int run_script(bool keep_going) {
    int first = kExitOk;
    session_.in_is_script = true;
    std::string line;
    for (uint64_t number = 1; !ended_ && std::getline(session_.in, line); ++number) {
      const int code = run_line(line);
      if (code == kExitOk) continue;
      if (first == kExitOk) first = code;
      session_.err << fmt::format("ramcloud: line {} failed with exit code {}\n", number, code);
      if (!keep_going) break;
    }
    const Status read = session_.input_status();
    return read.ok() ? first : session_.report_input(read);
  }

  int run_typed() {
    session_.err << "help lists the commands, exit or Ctrl-D ends; Tab completes.\n";
    LineEditor editor("ramcloud> ", history_path(),
                      [this](std::string_view text) { return complete(text); });
    while (!ended_) {
      const auto line = editor.next();
      if (!line) break;
      run_line(*line);
      session_.err.flush();
    }
    return kExitOk;
  }

 private:
  int run_line(const std::string& line) {
    auto words = split_words(line);
    if (!words) {
      session_.report(words.error());
      return kExitUsage;
    }
    if (words->empty()) return kExitOk;
    const std::string& command = words->front();
    if (words->size() == 1 && (command == "exit" || command == "quit")) {
      ended_ = true;
      return kExitOk;
    }
    if (command == "help") words->front() = "--help";
    if (command == "shell") {
      return session_.usage_error("this is a shell already; accepted is every other command");
    }
    std::vector<const char*> arguments;
    for (const std::string& word : given_) arguments.push_back(word.c_str());
    for (const std::string& word : *words) arguments.push_back(word.c_str());
    return run_cli(static_cast<int>(arguments.size()), arguments.data(), session_);
  }

  LineEditor::Completions complete(std::string_view text) {
    const PartialLine line = split_partial(text);
    auto words = complete_words(app_, line, [this] { return tables(); });
    for (std::string& word : words) word = quote_word(word);
    // No completion for a word with quotes or backslashes, because it differs from the typed text.
    if (!text.ends_with(line.current)) return {};
    return {text.size() - line.current.size(), std::move(words)};
  }

  std::vector<std::string> tables() {
    const Time now = session_.clock.now();
    if (!tables_ || now - asked_ > kTablesFresh) {
      asked_ = now;
      tables_.emplace();
      if (!parse_cluster(session_.cluster)) return {};
      auto found = session_.client().run(session_.core().list_tables(kTabPatience));
      if (found) {
        for (const auto& table : *found) tables_->push_back(table.name);
      }
    }
    return *tables_;
  }

  const CLI::App& app_;
  Session& session_;
  std::vector<std::string> given_;  // the arguments that precede every command
  bool ended_ = false;
  std::optional<std::vector<std::string>> tables_;
  Time asked_{};
};

}  // namespace

void add_shell_command(CLI::App& app, Session& session) {
  auto keep_going = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("shell", "Type commands, or read them from a script");
  command->add_flag("--keep-going", *keep_going,
                    "In a script: continue after a command that failed");
  command->footer(
      "Every line is a command as it would follow `ramcloud`, with words split and quoted as in a\n"
      "shell; nothing is expanded, # begins a comment. All of them use one connection. At a "
      "terminal\n"
      "lines can be edited, Tab completes commands, options and names of tables, and lines are "
      "kept\n"
      "in $XDG_STATE_HOME/ramcloud/history (~/.local/state/ramcloud/history). Otherwise\n"
      "standard input is a script. It ends at the first command that fails, with its exit code;\n"
      "commands in it cannot read standard input.\n\n"
      "Examples:\n"
      "  ramcloud shell\n"
      "  ramcloud shell < commands.txt\n");
  runs(*command, session, [&app, &session, keep_going] {
    Shell shell(app, session);
    return session.in_is_terminal ? shell.run_typed() : shell.run_script(*keep_going);
  });
}

}  // namespace ramcloud::cli
