#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "cli/commands/shell_words.h"
#include "cli/session.h"

namespace ramcloud::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

TEST(ShellWords, SplitAsAShellDoes) {
  const std::pair<const char*, Words> cases[] = {
      {"", {}},
      {"   \t ", {}},
      {"# nothing", {}},
      {"get t k", {"get", "t", "k"}},
      {"  get\tt  k # the key", {"get", "t", "k"}},
      {"put t k 'a b'", {"put", "t", "k", "a b"}},
      {"put t k \"a \\\"b\\\" 'c'\"", {"put", "t", "k", "a \"b\" 'c'"}},
      {"put t k ''", {"put", "t", "k", ""}},
      {"put t k a\\ b", {"put", "t", "k", "a b"}},
      {"put t k 'a\\n'", {"put", "t", "k", "a\\n"}},
      {"put t a'b'\"c\"d", {"put", "t", "abcd"}},
      {"put t k a#b", {"put", "t", "k", "a#b"}},
  };
  for (const auto& [line, words] : cases) {
    const auto split = split_words(line);
    ASSERT_TRUE(split.has_value()) << line;
    EXPECT_EQ(*split, words) << line;
  }
  for (const char* line : {"put t 'k", "put t \"k", "put t k\\"}) {
    EXPECT_FALSE(split_words(line).has_value()) << line;
  }
}

TEST(ShellWords, WhatIsQuotedIsReadBack) {
  for (const std::string word : {"plain", "", "a b", "it's", "\"", "\\", "#x", "a\nb", "'"}) {
    EXPECT_EQ(split_words("x " + quote_word(word) + " y").value(), (Words{"x", word, "y"}));
  }
}

TEST(ShellWords, Completion) {
  CLI::App app("test", "ramcloud");
  std::string text, table, key, file;
  app.add_option("--timeout", text, "");
  CLI::App* get = app.add_subcommand("get", "");
  get->add_option("TABLE", table, "");
  get->add_option("KEY", key, "");
  get->add_flag("--raw");
  get->add_option("--as", text, "");
  CLI::App* tables = app.add_subcommand("table", "");
  tables->add_subcommand("create", "");
  CLI::App* drop = tables->add_subcommand("drop", "");
  drop->add_option("TABLE", table, "");
  const auto complete = [&](const char* line) {
    return complete_words(app, split_partial(line),
                          [] { return Words{"users", "orders", "user pictures"}; });
  };
  EXPECT_THAT(complete(""), ElementsAre("get", "table"));
  EXPECT_THAT(complete("g"), ElementsAre("get"));
  EXPECT_THAT(complete("table "), ElementsAre("create", "drop"));
  EXPECT_THAT(complete("get us"), ElementsAre("user pictures", "users"));
  EXPECT_THAT(complete("get users "), IsEmpty());  // keys are not completed
  EXPECT_THAT(complete("get --raw us"), ElementsAre("user pictures", "users"));
  EXPECT_THAT(complete("get --as "), IsEmpty());
  EXPECT_THAT(complete("get --as x o"), ElementsAre("orders"));
  EXPECT_THAT(complete("--timeout 3s get o"), ElementsAre("orders"));
  EXPECT_THAT(complete("table drop o"), ElementsAre("orders"));
  EXPECT_THAT(complete("get --r"), ElementsAre("--raw"));
  EXPECT_THAT(complete("get users --t"), ElementsAre("--timeout"));
  EXPECT_THAT(complete("get 'us"), IsEmpty());
  EXPECT_THAT(complete("nothing "), IsEmpty());
}

struct Outcome {
  int code;
  std::string out, err;
};

Outcome script(const std::string& text, std::vector<const char*> arguments = {"shell"}) {
  arguments.insert(arguments.begin(), "ramcloud");
  std::istringstream in(text);
  std::ostringstream out, err;
  Session session(in, out, err);
  const int code = run_cli(static_cast<int>(arguments.size()), arguments.data(), session);
  return {code, out.str(), err.str()};
}

TEST(ShellScript, RunsLinesUntilOneFails) {
  const Outcome good = script("# a comment\n\ncompletion bash\n--version\nexit\nnonsense\n");
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("complete -o filenames"));
  EXPECT_THAT(good.out, HasSubstr("ramcloud "));
  const Outcome bad = script("nonsense\n--version\n");
  EXPECT_EQ(bad.code, kExitUsage);
  EXPECT_EQ(bad.out, "");
  EXPECT_THAT(bad.err, HasSubstr("line 1 failed with exit code 2"));
  const Outcome quotes = script("--version\nget 'x\n");
  EXPECT_EQ(quotes.code, kExitUsage);
  EXPECT_THAT(quotes.err, HasSubstr("quotes are not closed"));
  EXPECT_THAT(quotes.err, HasSubstr("line 2 failed"));
}

TEST(ShellScript, KeepGoingGivesTheFirstFailure) {
  const Outcome outcome =
      script("nonsense\n--version\nreplica dump /nowhere\n", {"shell", "--keep-going"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.out, HasSubstr("ramcloud "));
  EXPECT_THAT(outcome.err, HasSubstr("line 3 failed"));
}

TEST(ShellScript, IsNoShellInAShell) {
  const Outcome outcome = script("shell\n");
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("this is a shell already"));
}

}  // namespace
}  // namespace ramcloud::cli
