// The command line without a cluster: formats, arguments, exit codes.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "backup/frame_format.h"
#include "base/random.h"
#include "base/testing/temporary_folder.h"
#include "cli/formats/base64.h"
#include "cli/formats/line_reader.h"
#include "cli/formats/output.h"
#include "cli/formats/record.h"
#include "cli/session.h"
#include "log/log_test_support.h"

namespace ramcloud::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// ---- records ------------------------------------------------------------------------------------

std::string random_bytes(Random& random, size_t at_most, bool text) {
  std::string bytes(random.below(at_most + 1), '\0');
  for (char& c : bytes) c = static_cast<char>(text ? random.below(128) : random.below(256));
  return bytes;
}

TEST(RecordTest, AnyBytesSurviveTheRoundTrip) {
  const uint64_t seed = 20'260'101;
  Random random(seed);
  for (int i = 0; i < 5000; ++i) {
    const std::string key = random_bytes(random, 20, random.chance(0.5)) + "k";
    const std::string value = random_bytes(random, 200, random.chance(0.5));
    const std::string line = format_record(key, value);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto record = parse_record(line);
    ASSERT_TRUE(record.has_value())
        << "seed " << seed << ", " << line << ": " << record.error().to_string();
    EXPECT_EQ(record->key, key);
    EXPECT_EQ(record->value, value);
  }
}

TEST(RecordTest, TextStaysTextAndOtherBytesBecomeBase64) {
  EXPECT_EQ(format_record("k", "größe \"1\"\n"),
            "{\"key\":\"k\",\"value\":\"größe \\\"1\\\"\\n\"}");
  EXPECT_EQ(format_record("\xff", "v"), R"({"key_b64":"/w==","value":"v"})");
  EXPECT_EQ(format_record("k", "\x80", {.version = 7, .table_id = 3}),
            R"({"table":3,"key":"k","value_b64":"gA==","version":7})");
  EXPECT_EQ(format_record("k", "v", {.version = {}, .table_id = {}, .with_value = false}),
            R"({"key":"k"})");
}

TEST(RecordTest, FieldsInAnyOrderAndAnEmptyValueAreGood) {
  const auto record = parse_record(R"( {"value_b64": "", "key": "\u0000\ud83d\ude00"} )");
  ASSERT_TRUE(record.has_value()) << record.error().to_string();
  EXPECT_EQ(record->key, std::string("\0\xf0\x9f\x98\x80", 5));
  EXPECT_EQ(record->value, "");
}

TEST(RecordTest, RefusalsNameTheFieldAndWhatIsAccepted) {
  const std::string long_key(65'536, 'k');
  const std::pair<std::string, std::string> cases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"{} x", "not JSON"},
      {"{\"key\":\"\xff\",\"value\":\"\"}", "not JSON"},
      {R"({"key":"\ud800","value":""})", "not JSON"},
      {"[]", "the line is a list"},
      {"7", "the line is a number"},
      {"\"x\"", "the line is a string"},
      {"{}", "there is no key"},
      {R"({"key":"k"})", "there is no value"},
      {R"({"value":"v"})", "there is no key"},
      {R"({"key":1,"value":"v"})", "field key: it is a number; accepted is a string"},
      {R"({"key":"k","value":null})", "field value: it is null"},
      {R"({"key":"k","value":{"a":1}})", "field value: it is an object"},
      {R"({"key":"k","key_b64":"aw==","value":"v"})", "field key_b64: the key is given twice"},
      {R"({"key":"k","key":"j","value":"v"})", "field key: the key is given twice"},
      {R"({"key":"k","value":"v","ttl":"1"})", "field \"ttl\" is not known"},
      {R"({"key_b64":"a","value":"v"})", "field key_b64: base64 of 1 characters"},
      {R"({"key_b64":"a!==","value":"v"})", "field key_b64: base64 has the byte 0x21 at 1"},
      {R"({"key":"","value":"v"})", "field key: key: it has 0 bytes"},
      {"{\"key\":\"" + long_key + "\",\"value\":\"\"}",
       "it has 65536 bytes; accepted are 1 to 65535"},
  };
  for (const auto& [line, expected] : cases) {
    const auto record = parse_record(line);
    ASSERT_FALSE(record.has_value()) << line;
    EXPECT_THAT(record.error().message(), HasSubstr(expected)) << line.substr(0, 100);
  }
}

TEST(RecordTest, HostileNestingIsRefusedQuickly) {
  EXPECT_FALSE(parse_record(std::string(1 << 20, '[')).has_value());
  EXPECT_FALSE(parse_record("{\"key\":" + std::string(1 << 20, '{')).has_value());
}

TEST(Base64Test, MatchesTheVectorsOfItsStandard) {
  const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64_encode(bytes), text);
    EXPECT_EQ(base64_decode(text).value(), bytes);
  }
  for (const char* bad : {"Zg", "Zg=", "Zh==", "=Zg=", "Z g=", "====", "Zg==Zg=="}) {
    EXPECT_FALSE(base64_decode(bad).has_value()) << bad;
  }
}

// ---- lines --------------------------------------------------------------------------------------

TEST(LineReaderTest, CountsLinesAndTakesBothEnds) {
  std::istringstream in("a\r\n\nlast");
  LineReader lines(in, 10);
  std::string_view line;
  ASSERT_TRUE(*lines.next(line));
  EXPECT_EQ(line, "a");
  ASSERT_TRUE(*lines.next(line));
  EXPECT_EQ(line, "");
  ASSERT_TRUE(*lines.next(line));
  EXPECT_EQ(line, "last");
  EXPECT_EQ(lines.line_number(), 3u);
  EXPECT_EQ(lines.bytes_read(), 8u);
  EXPECT_FALSE(*lines.next(line));
}

TEST(LineReaderTest, LinesMayBeLongerThanItsPiecesButNotThanItsLimit) {
  const size_t limit = 1'000'000;
  std::istringstream in(std::string(limit, 'x') + "\nb\n" + std::string(limit + 1, 'y') + "\n");
  LineReader lines(in, limit);
  std::string_view line;
  ASSERT_TRUE(*lines.next(line));
  EXPECT_EQ(line.size(), limit);
  ASSERT_TRUE(*lines.next(line));
  EXPECT_EQ(line, "b");
  const auto too_long = lines.next(line);
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(lines.line_number(), 3u);
}

// ---- output -------------------------------------------------------------------------------------

TEST(OutputTest, AlignsByWidthAndLeavesNoBlanksAtTheEnd) {
  std::ostringstream out;
  print_table(out, {"A", "NAME"}, {{"1", "ü"}, {"22", ""}});
  EXPECT_EQ(out.str(), "A   NAME\n1   ü\n22\n");
}

TEST(OutputTest, MakesBytesPrintable) {
  EXPECT_EQ(printable("a\tb\n\\\x01\x7f ü"), "a\\tb\\n\\\\\\x01\\x7f ü");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1'234'567), "1,234,567");
}

TEST(OutputTest, NoProgressWhereThereIsNoTerminal) {
  std::ostringstream out;
  VirtualClock clock;
  {
    Progress progress(out, false, "objects", 100, clock);
    progress.update(50, 5);
  }
  EXPECT_EQ(out.str(), "");
  Progress progress(out, true, "objects", 100, clock);
  clock.advance(1s);
  progress.update(50, 5);
  EXPECT_THAT(out.str(), AllOf(HasSubstr(" 50% "), HasSubstr("5 objects, 5/s")));
}

// ---- the whole ----------------------------------------------------------------------------------

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ramcloud");
  std::istringstream in;
  std::ostringstream out, err;
  Session session(in, out, err);
  const int code = run_cli(static_cast<int>(arguments.size()), arguments.data(), session);
  return {code, out.str(), err.str()};
}

class CommandTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("RAMCLOUD_CLUSTER"); }
};

TEST_F(CommandTest, HelpGoesToStandardOutputAndNamesEveryCommandAndExitCode) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  for (const char* command : {"table", "put", "get", "del", "scan", "import", "export", "status",
                              "servers", "tablets", "replica", "bench", "completion"}) {
    EXPECT_THAT(help.out, HasSubstr(fmt::format("\n  {} ", command)));
    const Outcome own = run({command, "--help"});
    EXPECT_EQ(own.code, 0) << command;
    EXPECT_THAT(own.out, HasSubstr("Usage: ramcloud"));
  }
  EXPECT_THAT(help.out, HasSubstr(exit_codes_help()));
  EXPECT_EQ(run({"--version"}).code, 0);
}

TEST_F(CommandTest, WrongUsageIsExitCode2AndSaysWhy) {
  const std::pair<std::vector<const char*>, std::string> cases[] = {
      {{}, "a command is required"},
      {{"table"}, "a command is required"},
      {{"table", "make"}, "make"},
      {{"frobnicate"}, "frobnicate"},
      {{"get", "t"}, "KEY is required"},
      {{"get", "t", "k"}, "--cluster is not given"},
      {{"--cluster", "nowhere", "get", "t", "k"}, "--cluster: "},
      {{"--cluster", "a:1", "--timeout", "soon", "get", "t", "k"}, "soon"},
      {{"--cluster", "a:1", "-o", "xml", "get", "t", "k"}, "xml"},
      {{"--cluster", "a:1", "get", "t", ""}, "key: it has 0 bytes"},
      {{"--cluster", "a:1", "get", "t", "k", "--key-b64"}, "KEY: base64"},
      {{"--cluster", "a:1", "put", "t", "k", "v", "--create-only", "--update-only"}, "excludes"},
      {{"--cluster", "a:1", "table", "create", "t", "--span", "0"}, "--span"},
      {{"--cluster", "a:1", "import", "t", "/nonexistent/file"}, "/nonexistent/file"},
      {{"--cluster", "a:1", "import", "t", "-", "--span", "2"}, "--create"},
      {{"--cluster", "a:1", "bench", "read", "--keys", "1000", "--key-size", "2"}, "--key-size"},
      {{"--cluster", "a:1", "bench", "read", "--ops", "5", "--duration", "1s"}, "xcludes"},
      {{"--cluster", "a:1", "bench", "read", "--clients", "2", "--connections", "3"},
       "3 connections for 2 clients"},
      {{"--cluster", "a:1", "bench", "read", "--connections", "0"}, "--connections"},
      {{"--cluster", "a:1", "bench", "read", "--slo", "p99.9"}, "p99.9=1ms"},
      {{"--cluster", "a:1", "bench", "read", "--slo", "p99=1ms", "--rate", "5"}, "xcludes"},
      {{"--cluster", "a:1", "put", "t", "k", "v", "--if-version", "abc"},
       "it is 'abc'; accepted is a whole number from 1 to 18446744073709551615\n"},
      {{"--cluster", "a:1", "put", "t", "k", "v", "--if-version", "99999999999999999999"},
       "--if-version: it is '99999999999999999999'"},
      {{"--cluster", "a:1", "scan", "t", "--limit", "0"}, "--limit: it is '0'"},
      {{"--cluster", "a:1", "server", "condemn", "--yes", "--", "-1"}, "ID: it is '-1'"},
      {{"--cluster", "a:1", "server", "condemn", ""}, "ID: it is ''"},
      {{"--cluster", "a:1", "server", "show", "99999999999999999999"},
       "ID: it is '99999999999999999999'"},
      {{"--cluster", "a:1", "put", "t", "k"},
       "ramcloud: VALUE is required\nRun 'ramcloud put --help' for what is accepted.\n"},
      {{"gett", "t", "k"}, "ramcloud: 'gett' is not a command; did you mean 'get'?"},
      {{"delete", "t", "k"}, "'delete' is not a command; did you mean 'del'?"},
      {{"tables"}, "did you mean 'table list'?"},
      {{"table", "creat", "t"}, "'creat' is not a command; did you mean 'create'?"},
      {{"table", "xyzzy"}, "'xyzzy' is not a command; accepted are create, "},
      {{"bench"}, "a command is required; accepted are read, write, "},
      {{"--cluster", "a:1", "get", "t", "k", "--colour"},
       "'--colour' is not accepted by 'ramcloud get'"},
      {{"completion", "tcsh"}, "tcsh"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << expected;
    EXPECT_EQ(outcome.out, "") << expected;
    EXPECT_THAT(outcome.err, HasSubstr(expected));
  }
}

TEST_F(CommandTest, EveryGroupNamesTheUnknownCommandAndWhatIsAccepted) {
  for (const char* group :
       {"bench", "metadata", "recovery", "replica", "server", "table", "trace"}) {
    for (const std::vector<const char*>& rest : std::vector<std::vector<const char*>>{
             {"xyzzy"}, {"xyzzy", "7"}, {"--cluster", "a:1", "xyzzy"}}) {
      std::vector<const char*> words = {group};
      words.insert(words.end(), rest.begin(), rest.end());
      const Outcome unknown = run(words);
      EXPECT_EQ(unknown.code, kExitUsage) << group;
      EXPECT_THAT(unknown.err, StartsWith("ramcloud: 'xyzzy' is not a command; accepted are "));
      EXPECT_THAT(unknown.err, HasSubstr(fmt::format("Run 'ramcloud {} --help'", group)));
    }
    const Outcome none = run({group});
    EXPECT_EQ(none.code, kExitUsage) << group;
    EXPECT_THAT(none.err, StartsWith("ramcloud: a command is required; accepted are ")) << group;
  }
  EXPECT_THAT(run({"recovery", "retry"}).err,
              HasSubstr("'retry' is not a command; accepted are list, show, accept-loss, losses"));
  // The name of another command does not leave the group.
  EXPECT_THAT(run({"recovery", "status"}).err, HasSubstr("'status' is not a command"));
}

TEST_F(CommandTest, NobodyThereIsUnavailable) {
  for (const char* command : {"status", "servers", "tablets"}) {
    const Outcome outcome = run({"--cluster", "127.0.0.1:1", command, "--timeout", "100ms"});
    EXPECT_EQ(outcome.code, kExitUnavailable) << command;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("127.0.0.1:1")));
  }
  setenv("RAMCLOUD_CLUSTER", "127.0.0.1:1", 1);
  EXPECT_EQ(run({"get", "t", "k", "--timeout", "100ms"}).code, kExitUnavailable);
  unsetenv("RAMCLOUD_CLUSTER");
}

TEST_F(CommandTest, ReplicaFilesThatAreNotThereAreFailures) {
  EXPECT_NE(run({"replica", "dump", "/nonexistent/frames"}).code, 0);
  EXPECT_EQ(run({"replica", "rebuild", "/nonexistent/a"}).code, kExitFailed);
}

TEST_F(CommandTest, AnEmptyPathIsNamed) {
  const std::pair<std::vector<const char*>, std::string> cases[] = {
      {{"replica", "dump", ""}, "FILE: it is empty; accepted is "},
      {{"replica", "rebuild", ""}, "DIR: it is empty; accepted is "},
      {{"replica", "rebuild", "/nonexistent/a", ""}, "DIR: it is empty; accepted is "},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << expected;
    EXPECT_EQ(outcome.out, "") << expected;
    EXPECT_THAT(outcome.err, HasSubstr(expected));
  }
}

/// A folder with the replicas of a master's log of one object in each of tables 1 and 2.
class RebuildTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    log::TestLog test(2);
    ASSERT_EQ(log::append_object(test.log, 1, 1, "one", "v"), StatusCode::kOk);
    ASSERT_EQ(log::append_object(test.log, 2, 2, "two", "v"), StatusCode::kOk);
    const std::string segment = log::image_of(*test.log.find_segment(1));
    FrameSlot slot{};
    slot.state = FrameState::kOpen;
    slot.sequence = 1;
    std::ranges::copy(log::kTestCluster, slot.cluster_uuid);
    slot.master_id = log::kTestMaster;
    slot.segment_id = 1;
    slot.capacity = log::kSegmentBytes;
    seal(slot);
    std::string file(frames_file_bytes(1), '\0');
    file.replace(frame_metadata_offset(0), sizeof slot, bytes_of(slot));
    file.replace(frame_data_offset(0), segment.size(), segment);
    std::ofstream(folder_ / kFramesFileName, std::ios::binary) << file;
  }
  Outcome rebuild(std::vector<const char*> options) {
    options.insert(options.begin(), {"replica", "rebuild"});
    options.push_back(folder_.path().c_str());
    return run(options);
  }
  const TemporaryFolder folder_;
};

TEST_F(RebuildTest, ATableThatIsNotThereIsNotFound) {
  const Outcome two = rebuild({"--table", "2"});
  EXPECT_EQ(two.code, kExitOk) << two.err;
  EXPECT_EQ(two.out, "{\"key\":\"two\",\"value\":\"v\"}\n");
  const Outcome absent = rebuild({"--table", "99"});
  EXPECT_EQ(absent.code, kExitNotFound);
  EXPECT_EQ(absent.out, "");
  EXPECT_THAT(absent.err,
              HasSubstr("ramcloud: NOT_FOUND: --table 99: no object of such a table is in "
                        "these folders; there are objects of tables 1, 2\n"));
  EXPECT_THAT(rebuild({"--table", "1", "--recovered", "7"}).err,
              HasSubstr("is in these folders; there are no objects at all\n"));
  EXPECT_EQ(rebuild({}).code, kExitOk);
  EXPECT_EQ(rebuild({"--recovered", "7"}).code, kExitOk) << "no table was asked for";
}

TEST_F(RebuildTest, OptionsTakeOneValueAUse) {
  const Outcome one = rebuild({"--recovered", "999", folder_.path().c_str()});
  EXPECT_EQ(one.code, kExitOk) << one.err;
  EXPECT_THAT(one.out, HasSubstr("\"one\""));
  EXPECT_THAT(one.err, HasSubstr("master 999: recovered, 0 replicas are left out\n"));
  const Outcome several = rebuild({"--recovered", "998", "--recovered=7"});
  EXPECT_EQ(several.code, kExitOk) << several.err;
  EXPECT_THAT(several.err, AllOf(HasSubstr("master 7: recovered, 1 replicas"),
                                 HasSubstr("master 998: recovered, 0 replicas")));
  EXPECT_EQ(rebuild({"--fence", "7:1:0", folder_.path().c_str()}).code, kExitOk);
  EXPECT_EQ(rebuild({"--fence", "6:1:0", "--fence", "7:2:0"}).code, kExitFailed)
      << "the second counts, too";
  EXPECT_THAT(rebuild({"--recovered", "x"}).err, HasSubstr("--recovered: it is 'x'"));
  EXPECT_THAT(rebuild({"--fence", "7:1"}).err, HasSubstr("accepted is MASTER:SEGMENT:EPOCH"));
  EXPECT_THAT(run({"replica", "rebuild", "--recovered", "7"}).err, HasSubstr("DIR is required"));
}

TEST_F(CommandTest, CompletionKnowsCommandsAndTheirOptions) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = run({"completion", shell});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("table create"), HasSubstr("rebuild"),
                                   HasSubstr("keys-only"), HasSubstr("cluster")))
        << shell;
  }
}

TEST(ExitCodesTest, EveryStatusHasOne) {
  EXPECT_EQ(exit_code_of(StatusCode::kOk), kExitOk);
  EXPECT_EQ(exit_code_of(StatusCode::kNotFound), kExitNotFound);
  EXPECT_EQ(exit_code_of(StatusCode::kUnavailable), kExitUnavailable);
  EXPECT_EQ(exit_code_of(StatusCode::kDeadlineExceeded), kExitUnavailable);
  EXPECT_EQ(exit_code_of(StatusCode::kOutOfMemory), kExitRefused);
  EXPECT_EQ(exit_code_of(StatusCode::kExists), kExitRefused);
  EXPECT_EQ(exit_code_of(StatusCode::kIndeterminate), kExitIndeterminate);
  EXPECT_EQ(exit_code_of(StatusCode::kCorrupt), kExitFailed);
  EXPECT_EQ(exit_code_of(static_cast<StatusCode>(999)), kExitFailed);
}

}  // namespace
}  // namespace ramcloud::cli
