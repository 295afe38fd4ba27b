// ramcloud bench read|write: a closed loop of so many clients, and the latencies they saw.
#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/metrics.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/session.h"
#include "runtime/when_all.h"

namespace ramcloud::cli {
namespace {

struct BenchArguments {
  bool write = false;
  uint32_t clients = 1;
  uint32_t size = 100;
  uint32_t key_size = 30;
  uint64_t keys = 10'000;
  std::string duration = "10s";
  std::string warm_up = "1s";
  uint64_t ops = 0;  // not 0: so many instead of a duration
  std::string table;
  uint32_t span = 1;
  bool json = false;
};

/// Key number i: its digits, with zeros in front up to the size wanted.
std::string key_of(const BenchArguments& arguments, uint64_t i) {
  return fmt::format("{:0{}}", i, arguments.key_size);
}

/// The clients of one run, in one thread, each with one operation under way at a time.
class Run {
 public:
  Run(Session& session, const BenchArguments& arguments, uint64_t table_id)
      : core_(session.core()),
        clock_(session.clock),
        arguments_(arguments),
        table_id_(table_id),
        value_(arguments.size, 'v') {}

  /// Writes every key once, so that reads find something and overwrites overwrite.
  Task<Status> load() {
    constexpr uint32_t kLoaders = 32;
    std::vector<Task<void>> loaders;
    for (uint32_t i = 0; i < kLoaders; ++i) loaders.push_back(load_some());
    co_await when_all(std::move(loaders));
    co_return status_;
  }

  Task<Status> measure(Duration warm_up, Duration duration) {
    measure_from_ = clock_.now() + warm_up;
    end_ = arguments_.ops > 0 ? kNever : measure_from_ + duration;
    std::vector<Task<void>> clients;
    for (uint32_t i = 0; i < arguments_.clients; ++i) clients.push_back(client());
    co_await when_all(std::move(clients));
    co_return status_;
  }

  const Histogram& latencies() const { return latencies_; }
  uint64_t slowest_ns() const { return slowest_ns_; }
  double seconds() const {
    return std::max(std::chrono::duration<double>(last_done_ - measure_from_).count(), 1e-9);
  }

 private:
  Task<void> load_some() {
    while (status_.ok() && loaded_ < arguments_.keys) {
      const std::string key = key_of(arguments_, loaded_++);
      auto version = co_await core_.write(table_id_, key, value_);
      if (!version) status_ = std::move(version.error());
    }
  }

  Task<void> client() {
    while (status_.ok()) {
      const Time begin = clock_.now();
      const bool counts = begin >= measure_from_;
      if (begin >= end_ || (arguments_.ops > 0 && counts && started_ >= arguments_.ops)) co_return;
      if (counts) ++started_;
      const std::string key = key_of(arguments_, core_.reactor().random().below(arguments_.keys));
      if (arguments_.write) {
        auto version = co_await core_.write(table_id_, key, value_);
        if (!version) status_ = std::move(version.error());
      } else {
        auto found = co_await core_.read(table_id_, key);
        if (!found) status_ = std::move(found.error());
      }
      if (counts) record(begin);
    }
  }

  void record(Time begin) {
    last_done_ = clock_.now();
    const auto ns = static_cast<uint64_t>((last_done_ - begin).count());
    latencies_.record(ns);
    slowest_ns_ = std::max(slowest_ns_, ns);
  }

  ClientCore& core_;
  const Clock& clock_;
  const BenchArguments& arguments_;
  uint64_t table_id_;
  std::string value_;
  uint64_t loaded_ = 0, started_ = 0;
  Time measure_from_{}, end_{}, last_done_{};
  Status status_;
  Histogram latencies_;
  uint64_t slowest_ns_ = 0;
};

constexpr std::pair<const char*, double> kQuantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

/// A bucket's bound can lie above the slowest value in it; no quantile does.
uint64_t quantile(const Run& run, double q) {
  return std::min(run.latencies().quantile(q), run.slowest_ns());
}

double throughput(const Run& run) {
  return static_cast<double>(run.latencies().count()) / run.seconds();
}

double mean_ns(const Run& run) {
  const auto count = std::max<uint64_t>(run.latencies().count(), 1);
  return static_cast<double>(run.latencies().sum()) / static_cast<double>(count);
}

void print_json(Session& session, const BenchArguments& arguments, const Run& run) {
  nlohmann::ordered_json json = {
      {"workload", arguments.write ? "write" : "read"},
      {"clients", arguments.clients},
      {"value_bytes", arguments.size},
      {"key_bytes", arguments.key_size},
      {"keys", arguments.keys},
      {"operations", run.latencies().count()},
      {"seconds", run.seconds()},
      {"operations_per_second", throughput(run)},
  };
  nlohmann::ordered_json latency = {{"mean", mean_ns(run)}};
  for (const auto& [name, q] : kQuantiles) latency[name] = quantile(run, q);
  latency["max"] = run.slowest_ns();
  json["latency_ns"] = std::move(latency);
  auto buckets = nlohmann::ordered_json::array();
  uint64_t below = 0;
  for (int i = 0; i < Histogram::kBuckets && below < run.latencies().count(); ++i) {
    const uint64_t bound = Histogram::upper_bound(i);
    const uint64_t so_far = run.latencies().count_at_most(bound);
    if (so_far > below) buckets.push_back({{"at_most_ns", bound}, {"count", so_far - below}});
    below = so_far;
  }
  json["histogram"] = std::move(buckets);
  session.out << json.dump() << '\n';
}

void print_histogram(Session& session, const Run& run) {
  struct Bar {
    uint64_t up_to_ns, count;
  };
  std::vector<Bar> bars;  // one for each power of two
  uint64_t below = 0, most = 1;
  for (uint64_t bound = 1024; below < run.latencies().count() && bound < uint64_t{1} << 60;
       bound *= 2) {
    const uint64_t so_far = run.latencies().count_at_most(bound - 1);
    if (so_far > below || !bars.empty()) bars.push_back({bound, so_far - below});
    most = std::max(most, so_far - below);
    below = so_far;
  }
  for (const Bar& bar : bars) {
    session.out << fmt::format("  < {:>9}  {:>12}  {}\n",
                               format_duration(Duration(static_cast<int64_t>(bar.up_to_ns))),
                               with_thousands(bar.count), std::string(bar.count * 50 / most, '#'));
  }
}

void print_text(Session& session, const BenchArguments& arguments, const Run& run) {
  session.out << fmt::format(
      "{}: {} clients, {} operations in {:.2f} s, {} operations/s\n"
      "keys: {} of {} bytes; values of {} bytes\n",
      arguments.write ? "write" : "read", arguments.clients,
      with_thousands(run.latencies().count()), run.seconds(),
      with_thousands(static_cast<uint64_t>(throughput(run))), with_thousands(arguments.keys),
      arguments.key_size, arguments.size);
  std::vector<std::string> header, row;
  const auto add = [&](const char* name, double ns) {
    header.emplace_back(name);
    row.push_back(format_duration(Duration(static_cast<int64_t>(ns))));
  };
  add("MEAN", mean_ns(run));
  for (const auto& [name, q] : kQuantiles) add(name, static_cast<double>(quantile(run, q)));
  add("MAX", static_cast<double>(run.slowest_ns()));
  print_table(session.out, header, {row});
  print_histogram(session, run);
}

/// The run on a table that is there.
int bench_on(Session& session, const BenchArguments& arguments, uint64_t table_id) {
  Run run(session, arguments, table_id);
  auto& client = session.client();
  if (const Status status = client.run(run.load()); !status.ok()) {
    return session.report(status, "loading the keys");
  }
  const Status status = client.run(run.measure(parse_duration(arguments.warm_up).value(),
                                               parse_duration(arguments.duration).value()));
  if (!status.ok()) return session.report(status, arguments.write ? "write" : "read");
  if (arguments.json || session.json()) {
    print_json(session, arguments, run);
  } else {
    print_text(session, arguments, run);
  }
  return kExitOk;
}

bool enough_digits(const BenchArguments& arguments) {
  return std::to_string(arguments.keys - 1).size() <= arguments.key_size;
}

int bench(Session& session, const BenchArguments& arguments) {
  if (!enough_digits(arguments)) {
    return session.usage_error(
        fmt::format("--key-size: {} bytes cannot name {} keys; accepted is at least {}",
                    arguments.key_size, arguments.keys, std::to_string(arguments.keys - 1).size()));
  }
  auto& client = session.client();
  if (!arguments.table.empty()) {
    auto table = open_table(session, arguments.table);
    if (!table) return session.report(table.error());
    return bench_on(session, arguments, table->table_id);
  }
  const std::string name = fmt::format("bench-{:016x}", entropy_seed());
  auto table = client.run(session.core().create_table(name, arguments.span));
  if (!table) return session.report(table.error(), "the table of the benchmark");
  const int code = bench_on(session, arguments, table->table_id);
  const Status dropped = client.run(session.core().drop_table(name));
  if (!dropped.ok() && code == kExitOk) return session.report(dropped, "table '" + name + "'");
  return code;
}

std::string check_duration(const std::string& text) {
  auto parsed = parse_duration(text);
  return parsed ? std::string() : parsed.error().message();
}

void add_workload(CLI::App& group, Session& session, bool write) {
  auto arguments = std::make_shared<BenchArguments>();
  arguments->write = write;
  CLI::App* command = group.add_subcommand(write ? "write" : "read",
                                           write ? "Overwrite random keys" : "Read random keys");
  const CLI::Validator duration(check_duration, "");
  command->add_option("--clients", arguments->clients, "Operations under way at a time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 4096u));
  command->add_option("--size", arguments->size, "Bytes of a value")
      ->capture_default_str()
      ->check(CLI::Range(0u, wire::kMaxValueBytes));
  command->add_option("--key-size", arguments->key_size, "Bytes of a key")
      ->capture_default_str()
      ->check(CLI::Range(1u, wire::kMaxKeyBytes));
  command->add_option("--keys", arguments->keys, "How many keys, written before it starts")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}));
  CLI::Option* ops =
      command->add_option("--ops", arguments->ops, "So many operations, however long")
          ->check(CLI::PositiveNumber);
  command->add_option("--duration", arguments->duration, "How long to measure")
      ->capture_default_str()
      ->excludes(ops)
      ->check(duration);
  command->add_option("--warm-up", arguments->warm_up, "How long to run before measuring")
      ->capture_default_str()
      ->check(duration);
  CLI::Option* table = command->add_option("--table", arguments->table,
                                           "An existing table, whose keys 0... are overwritten");
  command->add_option("--span", arguments->span, "Tablets of the table made for the run")
      ->capture_default_str()
      ->excludes(table)
      ->check(CLI::Range(1u, 1'000'000u));
  command->add_flag("--json", arguments->json, "The same as -o json");
  needs_cluster(*command, session, [&session, arguments] { return bench(session, *arguments); });
}

}  // namespace

void add_bench_command(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("bench", "Measure a cluster: throughput and latencies");
  group->require_subcommand(0, 1);
  group->footer(
      "Closed loop: each client sends its next operation when the last was answered. Without "
      "--table\n"
      "a table is made for the run and dropped after it.\n\n"
      "Examples:\n"
      "  ramcloud bench read --clients 8 --duration 10s\n"
      "  ramcloud bench write --size 1000 --span 3 --json > write.json\n");
  add_workload(*group, session, false);
  add_workload(*group, session, true);
}

}  // namespace ramcloud::cli
