// The object commands and the public API, against a scripted cluster that runs on a thread of its
// own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <stdexcept>
#include <streambuf>

#include "base/testing/temporary_folder.h"
#include "cli/session.h"
#include "client/fake_cluster.h"
#include "ramcloud/ramcloud.h"
#include "runtime/thread.h"

namespace ramcloud::cli {
namespace {

using testing::HasSubstr;

class CommandsTest : public testing::Test {
 protected:
  struct Outcome {
    int code;
    std::string out, err;
  };

  void SetUp() override {
    std::promise<std::pair<std::string, Reactor*>> started;
    auto future = started.get_future();
    thread_ = Thread("fake-cluster", [this, &started] {
      FakeWorld world;
      FakeStore store;
      FakeNode server(
          world, 1, [&](FakeNode& node, const FakeNode::Call& call) { store.answer(node, call); });
      const wire::TableInfo table = table_over({{1, server.locator()}});
      FakeNode coordinator(world, 0, [&](FakeNode& node, const FakeNode::Call& call) {
        answer_as_coordinator(node, call, table);
      });
      started.set_value({coordinator.locator().address.to_string(), &world.reactor});
      world.reactor.run();
      stopped_.get_future().wait();  // run() may return while stop() still wakes the reactor
    });
    std::tie(cluster_, reactor_) = future.get();
  }
  void TearDown() override {
    reactor_->stop();
    stopped_.set_value();
    thread_.join();
  }

  Outcome run(const std::vector<const char*>& arguments, const std::string& input = {}) {
    std::istringstream in(input);
    return run_on(in, arguments);
  }
  Outcome run_on(std::istream& in, std::vector<const char*> arguments, bool terminal = false) {
    arguments.insert(arguments.begin(), {"ramcloud", "--cluster", cluster_.c_str()});
    std::ostringstream out, err;
    Session session(in, out, err);
    session.in_is_terminal = terminal;
    const int code = run_cli(static_cast<int>(arguments.size()), arguments.data(), session);
    return {code, out.str(), err.str()};
  }

  std::string cluster_;
  Reactor* reactor_ = nullptr;
  std::promise<void> stopped_;
  Thread thread_;
};

TEST_F(CommandsTest, PutGetDel) {
  EXPECT_EQ(run({"put", "things", "k", "[a,b]"}).out, "version 1\n");
  EXPECT_EQ(run({"get", "things", "k"}).out, "[a,b]\n");
  EXPECT_EQ(run({"put", "things", "k", "-"}, std::string("\0\xff\n", 3)).code, 0);
  EXPECT_EQ(run({"get", "things", "k", "--raw"}).out, std::string("\0\xff\n", 3));
  EXPECT_EQ(run({"get", "things", "aw==", "--key-b64", "-o", "json"}).out,
            "{\"key\":\"k\",\"value_b64\":\"AP8K\",\"version\":2}\n");
  EXPECT_EQ(run({"put", "things", "e", ""}).code, 0);
  EXPECT_EQ(run({"get", "things", "e"}).out, "\n");
  EXPECT_EQ(run({"del", "things", "k", "-o", "json"}).out, "{\"version\":2}\n");
  EXPECT_EQ(run({"del", "things", "k"}).code, kExitNotFound);
  EXPECT_EQ(run({"del", "things", "k", "--ignore-missing"}).code, 0);
  const Outcome gone = run({"get", "things", "k"});
  EXPECT_EQ(gone.code, kExitNotFound);
  EXPECT_EQ(gone.out, "");
  EXPECT_THAT(gone.err, HasSubstr("table 'things', key 'k': NOT_FOUND"));
}

TEST_F(CommandsTest, Incr) {
  EXPECT_EQ(run({"incr", "things", "n"}).out, "1\n");
  EXPECT_EQ(run({"incr", "things", "n", "41"}).out, "42\n");
  EXPECT_EQ(run({"incr", "things", "n", "--", "-43"}).out, "-1\n");
  EXPECT_EQ(run({"incr", "things", "n", "-o", "json"}).out, "{\"value\":0,\"version\":4}\n");
  EXPECT_EQ(run({"incr", "things", "d", "0.5", "--as", "double"}).out, "0.5\n");
  EXPECT_EQ(run({"incr", "things", "d", "1e100", "--as", "double", "-o", "json"}).out,
            "{\"value\":1e+100,\"version\":6}\n");
  ASSERT_EQ(run({"put", "things", "text", "five!"}).code, 0);
  const Outcome text = run({"incr", "things", "text"});
  EXPECT_EQ(text.code, kExitRefused);
  EXPECT_THAT(text.err, HasSubstr("table 'things', key 'text': INVALID_ARGUMENT"));
  const Outcome half = run({"incr", "things", "n", "0.5"});
  EXPECT_EQ(half.code, kExitUsage);
  EXPECT_THAT(half.err, HasSubstr("DELTA is '0.5'; accepted is an integer from "
                                  "-9223372036854775808 to 9223372036854775807"));
  EXPECT_THAT(run({"incr", "things", "n", "9223372036854775808"}).err, HasSubstr("DELTA is"));
  EXPECT_THAT(run({"incr", "things", "n", "x", "--as", "double"}).err,
              HasSubstr("DELTA is 'x'; accepted is a number"));
  EXPECT_EQ(run({"incr", "things", "n", "1", "--as", "float"}).code, kExitUsage);
}

TEST_F(CommandsTest, Mget) {
  ASSERT_EQ(run({"put", "things", "a", "1"}).code, 0);
  ASSERT_EQ(run({"put", "things", "b", ""}).code, 0);
  EXPECT_EQ(run({"mget", "things", "b", "a"}).out, "b\t\na\t1\n");
  const Outcome some = run({"mget", "things", "a", "x", "y"});
  EXPECT_EQ(some.code, kExitNotFound);
  EXPECT_EQ(some.out, "a\t1\n");
  EXPECT_THAT(some.err, HasSubstr("key 'x': NOT_FOUND"));
  EXPECT_THAT(some.err, HasSubstr("key 'y': NOT_FOUND"));
  const Outcome ignored = run({"mget", "things", "a", "x", "--ignore-missing", "-o", "json"});
  EXPECT_EQ(ignored.code, 0);
  EXPECT_EQ(ignored.out, "{\"key\":\"a\",\"value\":\"1\",\"version\":1}\n");
  EXPECT_EQ(run({"mget", "things", "-"}, "a\nb\n").out, "a\t1\nb\t\n");
  EXPECT_EQ(run({"mget", "things", "YQ==", "--key-b64"}).out, "a\t1\n");
  EXPECT_EQ(run({"mget", "things"}).code, kExitUsage);
  EXPECT_THAT(run({"mget", "things", "a", ""}).err, HasSubstr("key: it has 0 bytes"));
}

TEST_F(CommandsTest, ConditionsOfPutAndDel) {
  EXPECT_EQ(run({"put", "things", "k", "1", "--update-only"}).code, kExitNotFound);
  ASSERT_EQ(run({"put", "things", "k", "1", "--create-only"}).code, 0);
  EXPECT_EQ(run({"put", "things", "k", "2", "--create-only"}).code, kExitRefused);
  EXPECT_THAT(run({"put", "things", "k", "2", "--if-version", "7"}).err,
              HasSubstr("WRONG_VERSION"));
  EXPECT_EQ(run({"put", "things", "k", "2", "--if-version", "1"}).out, "version 2\n");
  EXPECT_EQ(run({"put", "things", "k", "3", "--if-newer-than", "2"}).code, kExitRefused);
  EXPECT_EQ(run({"put", "things", "k", "3", "--if-newer-than", "1"}).out, "version 3\n");
  EXPECT_EQ(run({"get", "things", "k", "--if-version", "2"}).code, kExitRefused);
  EXPECT_EQ(run({"get", "things", "k", "--if-version", "3"}).out, "3\n");
  EXPECT_EQ(run({"put", "things", "k", "3", "--if-version", "1", "--if-newer-than", "1"}).code,
            kExitUsage);
  EXPECT_EQ(run({"put", "things", "k", "3", "--if-version", "0"}).code, kExitUsage);
  EXPECT_EQ(run({"incr", "things", "none", "--update-only"}).code, kExitNotFound);
  EXPECT_EQ(run({"del", "things", "k", "--if-newer-than", "3"}).code, kExitRefused);
  EXPECT_EQ(run({"del", "things", "k", "--if-version", "3"}).out, "version 3\n");
}

TEST_F(CommandsTest, WhatIsImportedIsExported) {
  std::string lines;
  for (int i = 100; i < 400; ++i) {
    lines += "{\"key\":\"key" + std::to_string(i) + "\",\"value\":\"value " + std::to_string(i) +
             "\"}\n";
  }
  lines += "{\"key_b64\":\"/w==\",\"value_b64\":\"/v8=\"}\n";
  const Outcome imported = run({"import", "things", "-"}, lines);
  EXPECT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("imported 301 objects"));
  EXPECT_EQ(run({"export", "things", "--sort"}).out, lines);
  EXPECT_THAT(run({"import", "things", "/"}).err, HasSubstr("FILE: '/' cannot be read; accepted"));
  EXPECT_EQ(run({"import", "things", "/dev/null"}).code, 0);
  EXPECT_EQ(run({"scan", "things", "--count"}).out, "301\n");
  EXPECT_EQ(run({"scan", "things", "--limit", "2"}).out, "key100\tvalue 100\nkey101\tvalue 101\n");
}

TEST_F(CommandsTest, AnExportReplacesNothingButAFile) {
  ASSERT_EQ(run({"put", "things", "k", "v"}).code, 0);
  const std::string line = "{\"key\":\"k\",\"value\":\"v\"}\n";
  const TemporaryFolder folder;
  const std::string file = folder / "file", link = folder / "link", pipe = folder / "pipe";

  std::ofstream(file) << "before";
  std::filesystem::create_symlink("file", link);
  EXPECT_EQ(run({"export", "things", link.c_str()}).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  std::ifstream in(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), line);

  // Like a device, such as /dev/stdout: a process of root could replace it by a file.
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  EXPECT_EQ(run({"export", "things", pipe.c_str()}).code, 0);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  char bytes[100];
  const ssize_t got = ::read(reader, bytes, sizeof bytes);
  EXPECT_EQ(std::string(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0))), line);
  ::close(reader);
}

TEST_F(CommandsTest, OfTwoLinesWithOneKeyTheLaterWins) {
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    lines += "{\"key\":\"k\",\"value\":\"" + std::to_string(i) + "\"}\n";
  }
  ASSERT_EQ(run({"import", "things", "-"}, lines).code, 0);
  EXPECT_EQ(run({"get", "things", "k"}).out, "199\n");
}

TEST_F(CommandsTest, ABadLineIsNamed) {
  const Outcome outcome =
      run({"import", "things", "-"}, "{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"c\"}\n");
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              HasSubstr("standard input, line 2: INVALID_ARGUMENT: there is no value"));
}

TEST_F(CommandsTest, CsvGoesInAndOut) {
  const std::string text = "id,name,value\r\n1,x,\"a, \"\"b\"\"\r\nc\"\r\n2,y,\r\n";
  const Outcome imported =
      run({"import", "things", "-", "--format", "csv", "--key-column", "id"}, text);
  EXPECT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("imported 2 objects"));
  EXPECT_EQ(run({"get", "things", "1"}).out, "a, \"b\"\r\nc\n");
  EXPECT_EQ(run({"export", "things", "--sort", "--format", "csv"}).out,
            "key,value\n1,\"a, \"\"b\"\"\r\nc\"\n2,\n");
  ASSERT_EQ(run({"put", "things", "3", "-"}, "\xff").code, 0);
  const Outcome bytes = run({"export", "things", "--sort", "--format", "csv"});
  EXPECT_EQ(bytes.code, kExitRefused);
  EXPECT_THAT(bytes.err, HasSubstr("key '3': column 'value': '\\xff' is not UTF-8 text"));
  EXPECT_THAT(
      run({"export", "things", "--sort", "--format", "csv", "--value-column", "value_b64"}).out,
      testing::EndsWith("2,\n3,/w==\n"));
}

TEST_F(CommandsTest, AWrongCsvFileIsNamedWithLineAndField) {
  const auto import = [this](const char* text) {
    return run({"import", "things", "-", "--format", "csv"}, text);
  };
  const Outcome header = import("id,value\n1,2\n");
  EXPECT_EQ(header.code, kExitUsage);
  EXPECT_THAT(header.err, HasSubstr("standard input, line 1: INVALID_ARGUMENT: there is no column "
                                    "'key'; accepted with --key-column is one of: id, value"));
  const Outcome field = import("key,value\na,\"1\n2\"\nb,\"3\n");
  EXPECT_EQ(field.code, kExitUsage);
  EXPECT_THAT(field.err, HasSubstr("standard input, line 4: INVALID_ARGUMENT: field 2: its quotes "
                                   "are not closed"));
  EXPECT_EQ(run({"import", "things", "-", "--format", "xml"}).code, kExitUsage);
  EXPECT_EQ(run({"import", "things", "-", "--key-column", "id"}).code, kExitUsage);
}

class ResumeTest : public CommandsTest {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  Outcome import() { return run({"import", "things", file_.c_str(), "--resume", state_.c_str()}); }
  const TemporaryFolder folder_;
  std::string file_ = folder_ / "data.jsonl", state_ = folder_ / "state";
};

TEST_F(ResumeTest, GoesOnBehindWhatIsAcknowledged) {
  // The last line is wrong, so that the import ends there; of the same length is the right one.
  std::string good;
  for (int i = 100; i < 300; ++i) {
    good += "{\"key\":\"k" + std::to_string(i) + "\",\"value\":\"v\"}\n";
  }
  const std::string last = "{\"key\":\"last\",\"value\":\"v\"}\n";
  std::string wrong = last;
  wrong[0] = '[';
  write(file_, good + wrong);
  const Outcome first = import();
  EXPECT_EQ(first.code, kExitUsage);
  EXPECT_THAT(first.err, HasSubstr("line 201: INVALID_ARGUMENT"));
  ASSERT_EQ(run({"del", "things", "k150"}).code, 0);  // a later import does not restore it
  write(file_, good + last);
  const Outcome second = import();
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("continuing after line 200; 200 objects were imported before"));
  EXPECT_THAT(second.out, HasSubstr("imported 1 objects"));
  EXPECT_THAT(second.out, HasSubstr("after 200 of earlier runs"));
  EXPECT_EQ(run({"scan", "things", "--count"}).out, "200\n");
  EXPECT_THAT(import().out, HasSubstr("imported 0 objects"));  // the import is complete
}

TEST_F(ResumeTest, TheFileMayHaveAnotherPathByThen) {
  write(file_, "{\"key\":\"a\",\"value\":\"1\"}\n[\"key\":\"b\",\"value\":\"1\"}\n");
  EXPECT_EQ(import().code, kExitUsage);
  const std::string first_path = file_;
  file_ = folder_ / "m\xf6ved.jsonl";  // not UTF-8 either, and the old path holds something else
  write(file_, "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"1\"}\n");
  write(first_path, "nothing like it");
  const Outcome second = import();
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("imported 1 objects"));
  EXPECT_THAT(import().out, HasSubstr("imported 0 objects"));
}

TEST_F(ResumeTest, OtherInputIsRefused) {
  write(file_, "{\"key\":\"a\",\"value\":\"1\"}\n");
  ASSERT_EQ(import().code, 0);
  write(file_, "{\"key\":\"b\",\"value\":\"1\"}\n");
  const Outcome other = import();
  EXPECT_EQ(other.code, kExitUsage);
  EXPECT_THAT(other.err, HasSubstr("has other contents; accepted is the same file"));
  EXPECT_EQ(run({"get", "things", "b"}).code, kExitNotFound);
  EXPECT_EQ(run({"import", "things", "-", "--resume", state_.c_str()}).code, kExitUsage);
  const std::string nowhere = folder_ / "none/state";
  const Outcome unwritable = run({"import", "things", file_.c_str(), "--resume", nowhere.c_str()});
  EXPECT_EQ(unwritable.code, kExitFailed);
  EXPECT_THAT(unwritable.err, HasSubstr("cannot create"));
  EXPECT_EQ(run({"get", "things", "b"}).code, kExitNotFound);
}

/// Gives some bytes, then fails as a disk or a folder does.
class Unreadable final : public std::streambuf {
 public:
  explicit Unreadable(std::string first) : first_(std::move(first)) {
    setg(first_.data(), first_.data(), first_.data() + first_.size());
  }

 private:
  int_type underflow() override { throw std::runtime_error("input/output error"); }
  std::string first_;
};

TEST_F(CommandsTest, NothingIsWrittenOfAnInputThatCannotBeRead) {
  ASSERT_EQ(run({"put", "things", "k", "old"}).code, 0);
  for (const std::vector<const char*>& command : std::vector<std::vector<const char*>>{
           {"put", "things", "k", "-"}, {"mget", "things", "-"}, {"import", "things", "-"}}) {
    Unreadable broken("k");
    std::istream in(&broken);
    const Outcome outcome = run_on(in, command);
    EXPECT_EQ(outcome.code, kExitFailed) << command[0];
    EXPECT_THAT(outcome.err, HasSubstr("cannot be read")) << command[0];
    EXPECT_EQ(outcome.out, "") << command[0];
  }
  EXPECT_EQ(run({"get", "things", "k"}).out, "old\n");
}

TEST_F(CommandsTest, CommandsOfAScriptCannotReadTheScript) {
  const Outcome outcome = run({"shell"}, "put things k -\nput things other 1\n");
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("from which the script is read"));
  EXPECT_EQ(run({"get", "things", "k"}).code, kExitNotFound);
  EXPECT_EQ(run({"shell", "--keep-going"}, "import things -\nmget things -\n").code, kExitUsage);
}

TEST_F(CommandsTest, AtATerminalTheEndOfOneValueIsNotTheEndOfTheNext) {
  std::istringstream in("one");
  ASSERT_EQ(run_on(in, {"put", "things", "a", "-"}, true).code, 0);
  ASSERT_TRUE(in.eof());
  in.str("two");  // typed after the Ctrl-D that ended the first
  ASSERT_EQ(run_on(in, {"put", "things", "b", "-"}, true).code, 0);
  EXPECT_EQ(run({"get", "things", "b"}).out, "two\n");
}

TEST_F(CommandsTest, AShellRunsItsCommandsOverOneConnection) {
  const Outcome outcome = run({"shell"},
                              "put things 'a b' 1\nget things 'a b' -o json\n"
                              "incr things n --timeout 5s\nget things gone\nput things c 2\n");
  EXPECT_EQ(outcome.code, kExitNotFound);
  EXPECT_EQ(outcome.out, "version 1\n{\"key\":\"a b\",\"value\":\"1\",\"version\":1}\n1\n");
  EXPECT_THAT(outcome.err, HasSubstr("line 4 failed with exit code 3"));
  EXPECT_EQ(run({"get", "things", "c"}).code, kExitNotFound);
}

TEST_F(CommandsTest, TheEndingOfAFileSaysItsFormat) {
  const TemporaryFolder folder;
  const std::string csv = folder / "ending.csv", lines = folder / "ending.txt";
  std::ofstream(csv) << "key,value\na,1\n";
  std::ofstream(lines) << "key,value\na,1\n";
  Outcome outcome = run({"import", "things", csv.c_str()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("format: csv, by the ending of"));
  EXPECT_EQ(run({"get", "things", "a"}).out, "1\n");
  outcome = run({"import", "things", lines.c_str()});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("it was read as jsonl; --format says what it is"));
  outcome = run({"import", "things", csv.c_str(), "--format", "jsonl"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, Not(HasSubstr("--format says")));
  EXPECT_EQ(run({"export", "things", csv.c_str()}).code, 0);
  std::ifstream exported(csv);
  std::string line;
  std::getline(exported, line);
  EXPECT_EQ(line, "key,value");
  EXPECT_THAT(run({"import", "things", lines.c_str(), "--key-column", "id"}).err,
              HasSubstr("accepted with --format csv"));
}

TEST_F(CommandsTest, BenchmarksOverSeveralConnections) {
  const Outcome outcome = run({"bench", "read", "--ops", "200", "--keys", "20", "--connections",
                               "4", "--warm-up", "1ms", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"clients\":4,\"connections\":4,"));
}

TEST_F(CommandsTest, SearchesTheHighestRateThatKeepsABound) {
  Outcome outcome = run({"bench", "read", "--slo", "p50=1m", "--ops", "5", "--keys", "20",
                         "--warm-up", "0ms", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"slo\":{\"percentile\":50.0,\"bound_ns\":60000000000}"));
  EXPECT_THAT(outcome.out, HasSubstr("\"rate\":100000000,"));
  outcome =
      run({"bench", "read", "--slo", "p99=1us", "--ops", "5", "--keys", "20", "--warm-up", "0ms"});
  EXPECT_EQ(outcome.code, kExitUnavailable);
  EXPECT_THAT(outcome.out, HasSubstr("1,000/s"));
  EXPECT_THAT(outcome.err, HasSubstr("no rate keeps p99 <= 1.0 us"));
}

TEST_F(CommandsTest, Benchmarks) {
  for (const char* workload : {"read", "write"}) {
    const Outcome outcome = run({"bench", workload, "--ops", "200", "--keys", "20", "--clients",
                                 "3", "--warm-up", "1ms", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("\"operations\":200,"));
  }
  EXPECT_THAT(run({"bench", "read", "--duration", "20ms", "--warm-up", "0ms", "--keys", "5"}).out,
              HasSubstr("p99.9"));
}

TEST_F(CommandsTest, TheStatusCommandsSayWhenThereIsNoAdminAddress) {
  EXPECT_THAT(run({"status"}).err, HasSubstr("no admin address"));
  EXPECT_THAT(run({"tablets", "things"}).out, HasSubstr("0000000000000000  ffffffffffffffff  1"));
}

TEST_F(CommandsTest, ThePublicApi) {
  auto client = Client::connect(cluster_);
  ASSERT_TRUE(client.has_value());
  EXPECT_EQ(Client::connect("nowhere").error().code, ErrorCode::kInvalidArgument);
  const uint64_t table = client->create_table("things")->id;
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    ASSERT_TRUE(client->write(table, key, std::string(key) + "!").has_value());
  }
  EXPECT_EQ(client->read(table, "c")->value, "c!");
  EXPECT_EQ(client->read(table, "x").error().name(), "NOT_FOUND");
  EXPECT_EQ(client->write(table, "a", "b", {.only_version = 1, .only_newer_than = 2}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(client->remove(table, "e").value(), 5u);
  std::string seen;
  Scan scan = client->scan(table);
  for (;;) {
    auto object = scan.next();
    ASSERT_TRUE(object.has_value()) << object.error().to_string();
    if (*object == nullptr) break;
    seen += (*object)->value;
  }
  EXPECT_EQ(seen, "a!b!c!d!");
  EXPECT_EQ(client->list_tables()->size(), 1u);
  EXPECT_TRUE(client->drop_table("things").has_value());
}

TEST_F(CommandsTest, ThePublicApiCounts) {
  auto client = Client::connect(cluster_);
  EXPECT_EQ(client->increment(3, "n", 5)->value, 5);
  const auto sum = client->increment(3, "n", -7);
  EXPECT_EQ(sum->value, -2);
  EXPECT_EQ(client->read(3, "n")->version, sum->version);
  EXPECT_EQ(client->increment_double(3, "d", 1.5)->value, 1.5);
  EXPECT_EQ(client->increment_double(3, "d", -0.25)->value, 1.25);
  ASSERT_TRUE(client->write(3, "text", "x").has_value());
  EXPECT_EQ(client->increment(3, "text", 1).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(CommandsTest, ThePublicApiDoesManyAtOnce) {
  auto client = Client::connect(cluster_);
  std::vector<MultiObject> objects;
  for (int i = 0; i < 50; ++i) objects.push_back({3, "m" + std::to_string(i), "v", {}});
  objects[7].conditions = {.only_version = 1, .only_newer_than = 2};  // both: refused
  objects[9].key.clear();
  const auto written = client->multi_write(objects);
  ASSERT_EQ(written.size(), 50u);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(written[i].has_value(), i != 7 && i != 9) << i;
  EXPECT_THAT(written[7].error().message, HasSubstr("only_newer_than"));
  const auto found = client->multi_read({{3, "m0", {}}, {3, "none", {}}, {3, "m49", {}}});
  EXPECT_EQ(found[0]->value, "v");
  EXPECT_EQ(found[1].error().code, ErrorCode::kNotFound);
  EXPECT_EQ(found[2]->key, "m49");
  EXPECT_EQ(found[2]->version, *written[49]);
  const auto removed = client->multi_remove({{3, "m0", {}}, {3, "m0", {}}});
  EXPECT_EQ(*removed[0], *written[0]);
  EXPECT_EQ(*removed[1], 0u);
}

TEST_F(CommandsTest, ThePublicApiHasManyCallsOutstanding) {
  std::vector<Call<uint64_t>> writes;
  std::vector<Call<Object>> reads;
  {
    auto client = Client::connect(cluster_);
    for (int i = 0; i < 500; ++i) {
      writes.push_back(client->write_async(3, "a" + std::to_string(i), std::to_string(i)));
    }
    // The test waits for the last call first; all calls go on meanwhile.
    for (auto call = writes.rbegin(); call != writes.rend(); ++call) {
      EXPECT_TRUE(call->get().has_value());
    }
    for (int i = 0; i < 500; ++i) reads.push_back(client->read_async(3, "a" + std::to_string(i)));
    reads[3].cancel();
    reads.erase(reads.begin() + 4);  // destroyed is cancelled, too
  }
  // Calls may outlive their client.
  for (size_t i = 0; i < reads.size(); ++i) {
    const auto found = reads[i].get();
    if (i == 3) {
      EXPECT_EQ(found.error().code, ErrorCode::kCancelled);
    } else {
      EXPECT_EQ(found->value, found->key.substr(1));
    }
  }
}

TEST_F(CommandsTest, ThePublicApiInAnEventLoop) {
  auto client = Client::connect(cluster_);
  auto call = client->write_async(3, "k", "v");
  auto deadline = client->read_async(3, "k", {}, {.timeout = std::chrono::milliseconds(60'000)});
  int rounds = 0;
  while (!call.done() || !deadline.done()) {
    const auto wait = client->poll();
    pollfd descriptor{client->event_fd(), POLLIN, 0};
    ASSERT_GE(::poll(&descriptor, 1, static_cast<int>(wait.count() / 1000) + 1), 0);
    ASSERT_LT(++rounds, 100'000);
  }
  EXPECT_TRUE(call.get().has_value());
}

}  // namespace
}  // namespace ramcloud::cli
