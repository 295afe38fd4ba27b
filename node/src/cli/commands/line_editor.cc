#include "cli/commands/line_editor.h"

#include <fcntl.h>
#include <histedit.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "runtime/unique_fd.h"

namespace ramcloud::cli {
namespace {

constexpr int kKeptLines = 1000;
constexpr size_t kShownCandidates = 200;

/// While a line is typed, Ctrl-C interrupts reading, not the program.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction interrupt{};
    interrupt.sa_handler = [](int) {};  // without SA_RESTART: read() fails with EINTR
    sigaction(SIGINT, &interrupt, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_{};
};

std::string common_start(const std::vector<std::string>& words) {
  std::string common = words.front();
  for (const std::string& word : words) {
    const auto differ = std::ranges::mismatch(common, word).in1;
    common.erase(differ, common.end());
  }
  return common;
}

}  // namespace

struct LineEditor::Impl {
  std::string prompt, history_file;
  Complete complete;
  FILE* out = nullptr;
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event{};

  static Impl& of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<Impl*>(self);
  }
  static char* prompt_of(EditLine* editor) { return of(editor).prompt.data(); }

  static unsigned char on_tab(EditLine* editor, int) {
    Impl& self = of(editor);
    const LineInfo* line = el_line(editor);
    const std::string_view before(line->buffer, static_cast<size_t>(line->cursor - line->buffer));
    const auto [begin, words] = self.complete(before);
    if (words.empty()) return CC_REFRESH_BEEP;
    const size_t typed = before.size() - begin;
    std::string more = common_start(words);
    more.erase(0, std::min(typed, more.size()));
    if (words.size() == 1) more += ' ';
    if (!more.empty()) {
      el_insertstr(editor, more.c_str());
      return CC_REFRESH;
    }
    std::fputc('\n', self.out);
    for (size_t i = 0; i < std::min(words.size(), kShownCandidates); ++i) {
      std::fprintf(self.out, "%s  ", words[i].c_str());
    }
    if (words.size() > kShownCandidates) std::fputs("...", self.out);
    std::fputc('\n', self.out);
    return CC_REDISPLAY;
  }
};

LineEditor::LineEditor(std::string prompt, std::string history_file, Complete complete, FILE* in,
                       FILE* out, FILE* err)
    : impl_(std::make_unique<Impl>()) {
  std::setlocale(LC_CTYPE, "");  // input may be UTF-8
  Impl& impl = *impl_;
  impl.prompt = std::move(prompt);
  impl.history_file = std::move(history_file);
  impl.complete = std::move(complete);
  impl.out = out;
  impl.history = history_init();
  history(impl.history, &impl.event, H_SETSIZE, kKeptLines);
  history(impl.history, &impl.event, H_SETUNIQUE, 1);
  if (!impl.history_file.empty()) {
    // Created here, so that no other user can read the history.
    const UniqueFd made(
        ::open(impl.history_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    history(impl.history, &impl.event, H_LOAD, impl.history_file.c_str());
  }
  impl.editor = el_init("ramcloud", in, out, err);
  el_set(impl.editor, EL_CLIENTDATA, &impl);
  el_set(impl.editor, EL_PROMPT, &Impl::prompt_of);
  el_set(impl.editor, EL_EDITOR, "emacs");
  el_set(impl.editor, EL_SIGNAL, 0);
  el_set(impl.editor, EL_HIST, history, impl.history);
  el_set(impl.editor, EL_ADDFN, "ramcloud-complete", "Completes the word", &Impl::on_tab);
  el_set(impl.editor, EL_BIND, "^I", "ramcloud-complete", nullptr);
  el_set(impl.editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(impl.editor, nullptr);  // ~/.editrc, as for every program with this library
}

LineEditor::~LineEditor() {
  el_end(impl_->editor);
  history_end(impl_->history);
}

std::optional<std::string> LineEditor::next() {
  Impl& impl = *impl_;
  const InterruptGuard guard;
  int count = 0;
  errno = 0;
  const char* typed = el_gets(impl.editor, &count);
  if (typed == nullptr || count <= 0) {
    if (errno != EINTR) return std::nullopt;
    el_reset(impl.editor);
    std::fputc('\n', impl.out);
    return std::string();
  }
  std::string line(typed, static_cast<size_t>(count));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  if (line.find_first_not_of(" \t") != std::string::npos) {
    history(impl.history, &impl.event, H_ENTER, line.c_str());
    // Saved after every line, so that a killed shell loses nothing.
    if (!impl.history_file.empty()) {
      history(impl.history, &impl.event, H_SAVE, impl.history_file.c_str());
    }
  }
  return line;
}

std::string history_path() {
  namespace fs = std::filesystem;
  fs::path folder;
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && state[0] == '/') {
    folder = state;
  } else if (home != nullptr && home[0] == '/') {
    folder = fs::path(home) / ".local" / "state";
  } else {
    return {};
  }
  folder /= "ramcloud";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return {};
  return folder / "history";
}

}  // namespace ramcloud::cli
