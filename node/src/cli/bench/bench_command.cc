// ramcloud bench: generates a load and measures latencies.
#include <fmt/core.h>

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <ostream>

#include "base/random.h"
#include "base/text.h"
#include "cli/bench/bench_report.h"
#include "cli/bench/bench_run.h"
#include "cli/bench/bench_slo.h"
#include "cli/usage.h"

namespace ramcloud::cli {
namespace {

/// Runs the benchmark on an existing table.
int bench_on(Session& session, const BenchArguments& arguments, uint64_t table_id) {
  BenchRun run(session, arguments, table_id);
  auto& client = session.client();
  if (const Status status = client.run(run.load()); !status.ok()) {
    return session.report(status, "loading the keys");
  }
  const Status status = client.run(run.measure());
  if (!status.ok()) return session.report(status, arguments.workload->name);
  if (arguments.json || session.json()) {
    print_bench_json(session, arguments, run);
  } else {
    print_bench_text(session, arguments, run);
  }
  return write_files(session, arguments, run);
}

int bench_with(Session& session, const BenchArguments& arguments, uint64_t table_id) {
  if (arguments.slo.empty()) return bench_on(session, arguments, table_id);
  return bench_slo(session, arguments, parse_slo(arguments.slo).value(), table_id);
}

/// Checks the limit of file descriptors: each client connection needs one for each server, and the
/// program needs some.
bool enough_descriptors(uint32_t connections, uint64_t& limit) {
  constexpr rlim_t kOthers = 64;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return true;
  if (files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NOFILE, &files);
  }
  limit = files.rlim_cur;
  // At least one connection to the coordinator and one to a server.
  return files.rlim_cur == RLIM_INFINITY || 2 * rlim_t{connections} + kOthers <= files.rlim_cur;
}

bool enough_digits(const BenchArguments& arguments) {
  return std::to_string(arguments.keys - 1).size() <= arguments.key_size;
}

int bench(Session& session, BenchArguments arguments) {
  if (arguments.clients == 0) arguments.clients = default_clients(arguments);
  if (arguments.connections > arguments.clients) {
    return session.usage_error(fmt::format(
        "--connections: {} connections for {} clients; accepted is at most one for each",
        arguments.connections, arguments.clients));
  }
  if (uint64_t limit = 0; !enough_descriptors(arguments.connections, limit)) {
    return session.usage_error(
        fmt::format("--connections: {} connections need more file descriptors than the limit of "
                    "{}; accepted are fewer, or a higher limit (ulimit -n)",
                    arguments.connections, limit));
  }
  if (!enough_digits(arguments)) {
    return session.usage_error(
        fmt::format("--key-size: {} bytes cannot name {} keys; accepted is at least {}",
                    arguments.key_size, arguments.keys, std::to_string(arguments.keys - 1).size()));
  }
  auto& client = session.client();
  if (!arguments.table.empty()) {
    auto table = open_table(session, arguments.table);
    if (!table) return session.report(table.error());
    return bench_with(session, arguments, table->table_id);
  }
  const std::string name = fmt::format("bench-{:016x}", entropy_seed());
  auto table = client.run(session.core().create_table(name, arguments.span));
  if (!table) return session.report(table.error(), "the table of the benchmark");
  const int code = bench_with(session, arguments, table->table_id);
  const Status dropped = client.run(session.core().drop_table(name));
  if (!dropped.ok() && code == kExitOk) return session.report(dropped, "table '" + name + "'");
  return code;
}

std::string check_duration(const std::string& text) {
  auto parsed = parse_duration(text);
  return parsed ? std::string() : parsed.error().message();
}

std::string check_slo(const std::string& text) {
  auto parsed = parse_slo(text);
  return parsed ? std::string() : parsed.error().message();
}

std::string check_distribution(const std::string& text) {
  auto parsed = workload::parse_distribution(text);
  return parsed ? std::string() : parsed.error().message();
}

void add_shape_options(CLI::App& command, BenchArguments& arguments) {
  command
      .add_option(
          "--clients", arguments.clients,
          "Operations in flight at a time (default: one per connection, with --slo at least 64)")
      ->check(CLI::Range(1u, 4096u));
  command
      .add_option("--connections", arguments.connections,
                  "Connections to each server, which the clients share evenly")
      ->capture_default_str()
      ->check(CLI::Range(1u, 4096u));
  if (arguments.workload->batched()) {
    command.add_option("--batch", arguments.batch, "Keys of one operation")
        ->capture_default_str()
        ->check(CLI::Range(1u, 100'000u));
  }
  command.add_option("--size", arguments.size, "Bytes of a value")
      ->capture_default_str()
      ->check(CLI::Range(0u, wire::kMaxValueBytes));
  command.add_option("--key-size", arguments.key_size, "Bytes of a key")
      ->capture_default_str()
      ->check(CLI::Range(1u, wire::kMaxKeyBytes));
  command
      .add_option("--keys", arguments.keys,
                  "Number of keys; they are written before the measurement")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}));
  command
      .add_option_function<std::string>(
          "--distribution",
          [&arguments](const std::string& text) {
            arguments.distribution = workload::parse_distribution(text).value();
          },
          "Which keys: uniform, zipfian (some are popular) or latest (new ones are)")
      ->default_str(std::string(workload::distribution_name(arguments.distribution)))
      ->check(CLI::Validator(check_distribution, ""));
  command.add_option("--theta", arguments.theta, "Skew of zipfian and latest")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 0.9999));
}

void add_length_options(CLI::App& command, BenchArguments& arguments) {
  const CLI::Validator duration(check_duration, "");
  CLI::Option* ops = command
                         .add_option("--ops", arguments.ops,
                                     "Number of operations to measure, instead of --duration")
                         ->check(positive());
  command.add_option("--duration", arguments.duration, "How long to measure")
      ->capture_default_str()
      ->excludes(ops)
      ->check(duration);
  command.add_option("--warm-up", arguments.warm_up, "How long to run before measuring")
      ->capture_default_str()
      ->check(duration);
  CLI::Option* rate =
      command
          .add_option("--rate", arguments.rate,
                      "Operations that start per second, even if earlier ones are not done")
          ->check(CLI::Range(uint64_t{1}, uint64_t{100'000'000}));
  command
      .add_option("--slo", arguments.slo,
                  "Search the highest rate at which a percentile of the latency is within a bound, "
                  "for example p99.9=1ms; each trial takes --duration or --ops")
      ->type_name("pPERCENT=DURATION")
      ->excludes(rate)
      ->check(CLI::Validator(check_slo, ""));
}

void add_workload(CLI::App& group, Session& session, const workload::Workload& workload) {
  auto arguments = std::make_shared<BenchArguments>();
  arguments->workload = &workload;
  arguments->distribution = workload.distribution;
  CLI::App* command = group.add_subcommand(std::string(workload.name), std::string(workload.about));
  add_shape_options(*command, *arguments);
  add_length_options(*command, *arguments);
  CLI::Option* table = command->add_option("--table", arguments->table,
                                           "An existing table, whose keys 0... are overwritten");
  command->add_option("--span", arguments->span, "Tablets of the table that is created for the run")
      ->capture_default_str()
      ->excludes(table)
      ->check(CLI::Range(1u, 1'000'000u));
  command->add_flag("--json", arguments->json, "The same as -o json");
  command
      ->add_option("--histogram", arguments->histogram_file,
                   "Write the latencies' percentiles to this file, as HdrHistogram does")
      ->type_name("FILE");
  command
      ->add_option("--plot", arguments->plot_file,
                   "Draw the latencies' percentiles to this file, as SVG")
      ->type_name("FILE");
  needs_cluster(*command, session, [&session, arguments] { return bench(session, *arguments); });
}

}  // namespace

void add_bench_command(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("bench", "Measure a cluster: throughput and latencies");
  group->require_subcommand(0, 1);
  group->footer(
      "Closed loop: each client sends its next operation when the last was answered. With --rate,\n"
      "operations start on time. If no client is free they wait, and this wait is a part of their\n"
      "latency (no coordinated omission). With --slo such runs search the highest rate whose "
      "latency\n"
      "is within a bound. Without --table, a table is created for the run and dropped after it.\n\n"
      "Examples:\n"
      "  ramcloud bench read --clients 8 --duration 10s\n"
      "  ramcloud bench write --size 1000 --span 3 --json > write.json\n"
      "  ramcloud bench multiread --batch 80 --clients 4\n"
      "  ramcloud bench read --clients 256 --connections 64\n"
      "  ramcloud bench write --slo p99.9=1ms --duration 5s\n"
      "  ramcloud bench ycsb-b --keys 1000000 --clients 64 --plot latency.svg\n");
  for (const workload::Workload& workload : workload::workloads()) {
    add_workload(*group, session, workload);
  }
}

}  // namespace ramcloud::cli
