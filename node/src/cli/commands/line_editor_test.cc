#include "cli/commands/line_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/testing/temporary_folder.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// libedit keeps some copies of lines for ever; of their stacks only this much is seen.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:wcsdup\n";
}
#endif
#endif

namespace ramcloud::cli {
namespace {

using testing::HasSubstr;

/// An editor on a terminal whose other end is ours.
class LineEditorTest : public testing::Test {
 protected:
  LineEditorTest() {
    setenv("TERM", "xterm", 1);
    int slave = -1;
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(openpty(&keyboard, &slave, nullptr, nullptr, &size), 0);
    // The editor interprets input that is typed ahead, not the terminal.
    termios mode{};
    EXPECT_EQ(tcgetattr(slave, &mode), 0);
    mode.c_lflag &= ~tcflag_t{ICANON | ECHO};
    EXPECT_EQ(tcsetattr(slave, TCSANOW, &mode), 0);
    in = fdopen(slave, "r");
    out = fdopen(dup(slave), "w");
  }
  ~LineEditorTest() override {
    fclose(in);
    fclose(out);
    if (keyboard >= 0) close(keyboard);
  }
  LineEditor editor() {
    return LineEditor(
        "> ", folder / "history",
        [](std::string_view text) {
          LineEditor::Completions fitting{text.find_last_of(' ') + 1, {}};
          const std::string word(text.substr(fitting.word_begin));
          for (const char* name : {"status", "stop", "table"}) {
            if (std::string(name).starts_with(word)) fitting.words.emplace_back(name);
          }
          return fitting;
        },
        in, out, out);
  }
  void type(const std::string& keys) const {
    ASSERT_EQ(write(keyboard, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  const TemporaryFolder folder;
  int keyboard = -1;
  FILE *in = nullptr, *out = nullptr;
};

TEST_F(LineEditorTest, EditsCompletesAndRemembers) {
  {
    LineEditor typed = editor();
    type(
        "stetas\x7f\x7f\x7f\x7f"
        "atus\n");
    EXPECT_EQ(typed.next(), "status");
    type("ta\tx\n");
    EXPECT_EQ(typed.next(), "table x");
    type("s\t\tat\t\n");  // st; both are shown; status
    EXPECT_EQ(typed.next(), "status ");
    type("\x1b[A\x1b[A\n");  // up, up
    EXPECT_EQ(typed.next(), "table x");
  }
  struct stat info{};
  ASSERT_EQ(stat((folder / "history").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  LineEditor later = editor();
  type("\x10\n");  // Ctrl-P
  EXPECT_EQ(later.next(), "table x");
  close(keyboard);  // the terminal is closed
  keyboard = -1;
  EXPECT_FALSE(later.next().has_value());
}

TEST(HistoryPath, FollowsTheEnvironment) {
  const TemporaryFolder folder;
  setenv("XDG_STATE_HOME", (folder / "state").c_str(), 1);
  EXPECT_EQ(history_path(), folder / "state/ramcloud/history");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "state/ramcloud"));
  unsetenv("XDG_STATE_HOME");
  setenv("HOME", folder.path().c_str(), 1);
  EXPECT_EQ(history_path(), folder / ".local/state/ramcloud/history");
  setenv("HOME", "/proc/nowhere", 1);
  EXPECT_EQ(history_path(), "");
  unsetenv("HOME");
  EXPECT_EQ(history_path(), "");
}

}  // namespace
}  // namespace ramcloud::cli
