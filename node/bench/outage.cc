// What clients see when a server dies. Many readers, each with a key of its own, read it again and
// again, with a pause after each answer; the program kills a process and goes on until all of them
// are answered again. Of each reader it tells which read took longest, in milliseconds since the
// kill. Readers of keys that other servers have tell what a recovery costs those who lost nothing.
// hack/bench_recovery.py runs it.
#include <fmt/format.h>
#include <signal.h>
#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "bench/options.h"
#include "client/blocking_client.h"
#include "runtime/when_all.h"

namespace ramcloud {
namespace {

struct Options {
  std::string cluster;
  std::vector<std::string> tables;
  int64_t keys = 10'000;
  int64_t key_bytes = 30;
  int64_t readers = 32;  // of each table
  int64_t pause_us = 20'000;
  int64_t before_ms = 500;
  int64_t limit_s = 60;
  int64_t pid = 0;
  uint64_t server_id = 0;
};

struct Reader {
  uint64_t table_id = 0;
  std::string key;
  bool lost = false;                 // the server that dies has it
  Time asked{}, answered{};          // the read that took longest
  uint64_t answers = 0, absent = 0;  // absent: after the kill
  bool back = false;                 // a read that began after the kill was answered
};

class Outage {
 public:
  Outage(BlockingClient& client, const Options& options)
      : core_(client.core()), reactor_(client.reactor()), options_(options) {}

  Task<Status> run() {
    for (const std::string& table : options_.tables) {
      Status opened = co_await open(table);
      if (!opened.ok()) co_return opened;
    }
    if (std::ranges::none_of(readers_, &Reader::lost)) {
      co_return Status(StatusCode::kInvalidArgument,
                       fmt::format("--server-id is {}; accepted is the id of a server that has a "
                                   "tablet of one of the tables",
                                   options_.server_id));
    }
    std::vector<Task<void>> tasks;
    for (Reader& reader : readers_) tasks.push_back(read_on(reader));
    tasks.push_back(kill_it());
    co_await when_all(std::move(tasks));
    co_return status_;
  }

  std::string report() const {
    std::string list;
    for (const Reader& reader : readers_) {
      list += fmt::format(
          R"({}{{"lost":{},"asked_ms":{:.3f},"answered_ms":{:.3f},"answers":{},"absent":{}}})",
          list.empty() ? "" : ",", reader.lost, since_kill_ms(reader.asked),
          since_kill_ms(reader.answered), reader.answers, reader.absent);
    }
    return fmt::format(R"({{"killed_unix_ms":{:.3f},"readers":[{}]}})", killed_unix_ms_, list);
  }

 private:
  /// Its keys are numbers with zeros in front, as `ramcloud bench` makes them.
  Task<Status> open(const std::string& name) {
    auto table = co_await core_.open_table(name);
    if (!table) co_return std::move(table.error());
    for (int64_t i = 0; i < options_.readers; ++i) {
      Reader reader;
      reader.table_id = table->table_id;
      reader.key = fmt::format("{:0{}}", i * options_.keys / options_.readers, options_.key_bytes);
      const uint64_t hash = key_hash(reader.table_id, reader.key);
      for (const wire::TabletInfo& tablet : table->tablets) {
        if (tablet.start_hash <= hash && hash <= tablet.end_hash) {
          reader.lost = tablet.server_id == options_.server_id;
        }
      }
      readers_.push_back(std::move(reader));
    }
    co_return Status();
  }

  bool over() const {
    return !status_.ok() || (killed_ != Time{} && std::ranges::all_of(readers_, &Reader::back));
  }

  Task<void> read_on(Reader& reader) {
    // Not all at the same moment.
    co_await reactor_.sleep(Duration(static_cast<int64_t>(
        reactor_.random().below(static_cast<uint64_t>(options_.pause_us) * 1000 + 1))));
    while (!over()) {
      const Time asked = clock_.now();
      auto found = co_await core_.read(reader.table_id, reader.key);
      if (!found && found.error() != StatusCode::kNotFound) {
        status_ = std::move(found.error());
        co_return;
      }
      note(reader, asked, found.has_value());
      co_await reactor_.sleep(std::chrono::microseconds(options_.pause_us));
    }
  }
  void note(Reader& reader, Time asked, bool found) {
    const Time now = clock_.now();
    ++reader.answers;
    if (now - asked > reader.answered - reader.asked) {
      reader.asked = asked;
      reader.answered = now;
    }
    if (killed_ == Time{}) return;
    if (!found) ++reader.absent;
    if (asked > killed_) reader.back = true;
  }

  Task<void> kill_it() {
    co_await reactor_.sleep(std::chrono::milliseconds(options_.before_ms));
    // What was slow before does not count.
    for (Reader& reader : readers_) reader.asked = reader.answered = Time{};
    killed_unix_ms_ = std::chrono::duration<double, std::milli>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
    killed_ = clock_.now();
    if (kill(static_cast<pid_t>(options_.pid), SIGKILL) == 0) co_return;
    status_ = Status(StatusCode::kInvalidArgument,
                     fmt::format("--kill is {}: {}", options_.pid, std::strerror(errno)));
  }

  double since_kill_ms(Time at) const {
    return std::chrono::duration<double, std::milli>(at - killed_).count();
  }

  const SystemClock clock_;
  ClientCore& core_;
  Reactor& reactor_;
  const Options& options_;
  std::vector<Reader> readers_;
  Time killed_{};
  double killed_unix_ms_ = 0;
  Status status_;
};

int run(const Options& options) {
  auto coordinators = parse_cluster(options.cluster);
  if (!coordinators) {
    fmt::print(stderr, "error: --cluster: {}\n", coordinators.error().message());
    return 2;
  }
  // It sleeps between answers: cores are for the servers.
  BlockingClient client({.coordinators = std::move(*coordinators),
                         .timeout = std::chrono::seconds(options.limit_s),
                         .poll_for = Duration::zero()});
  Outage outage(client, options);
  const Status status = client.run(outage.run());
  if (!status.ok()) {
    fmt::print(stderr, "error: {}\n", status.to_string());
    return 1;
  }
  fmt::print("{}\n", outage.report());
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("Kills a server, and tells how long readers of its keys and of others wait.");
  app.add_option("--cluster", options.cluster, "the coordinators' addresses")->required();
  app.add_option("--table", options.tables, "whose keys are read; may be repeated")->required();
  bench::add_number(app, "--keys", options.keys, 1, 1'000'000'000,
                    "in each table: 0 and up, as digits");
  bench::add_number(app, "--key-size", options.key_bytes, 1, 65'535, "of a key, zeros in front");
  bench::add_number(app, "--readers", options.readers, 1, 10'000, "of each table");
  bench::add_number(app, "--pause-us", options.pause_us, 0, 60'000'000, "after an answer");
  bench::add_number(app, "--before-ms", options.before_ms, 1, 60'000,
                    "how long to read before the kill");
  bench::add_number(app, "--limit-s", options.limit_s, 1, 3600,
                    "an operation that takes longer is an error");
  bench::add_number(app, "--kill", options.pid, 2, 1 << 22, "the process that is killed")
      ->required();
  app.add_option("--server-id", options.server_id, "of that process")->required();
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
