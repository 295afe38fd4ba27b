// ramcloud bench: a load, and the latencies it saw.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <ostream>

#include "base/random.h"
#include "base/text.h"
#include "cli/bench_report.h"
#include "cli/bench_run.h"
#include "cli/usage.h"

namespace ramcloud::cli {
namespace {

/// The run on a table that is there.
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
  Status written;
  if (!arguments.histogram_file.empty()) written = write_histogram(arguments.histogram_file, run);
  if (written.ok() && !arguments.plot_file.empty()) {
    written = write_plot(arguments.plot_file, arguments, run);
  }
  return written.ok() ? kExitOk : session.report(written);
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

std::string check_distribution(const std::string& text) {
  auto parsed = workload::parse_distribution(text);
  return parsed ? std::string() : parsed.error().message();
}

void add_shape_options(CLI::App& command, BenchArguments& arguments) {
  command.add_option("--clients", arguments.clients, "Operations under way at a time")
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
  command.add_option("--keys", arguments.keys, "How many keys, written before it starts")
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
  command.add_option("--theta", arguments.theta, "How uneven zipfian and latest are")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 0.9999));
}

void add_length_options(CLI::App& command, BenchArguments& arguments) {
  const CLI::Validator duration(check_duration, "");
  CLI::Option* ops = command.add_option("--ops", arguments.ops, "So many operations, however long")
                         ->check(positive());
  command.add_option("--duration", arguments.duration, "How long to measure")
      ->capture_default_str()
      ->excludes(ops)
      ->check(duration);
  command.add_option("--warm-up", arguments.warm_up, "How long to run before measuring")
      ->capture_default_str()
      ->check(duration);
  command
      .add_option("--rate", arguments.rate,
                  "Operations that begin in a second, whether or not earlier ones are done")
      ->check(CLI::Range(uint64_t{1}, uint64_t{100'000'000}));
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
  command->add_option("--span", arguments->span, "Tablets of the table made for the run")
      ->capture_default_str()
      ->excludes(table)
      ->check(CLI::Range(1u, 1'000'000u));
  command->add_flag("--json", arguments->json, "The same as -o json");
  command
      ->add_option("--histogram", arguments->histogram_file,
                   "Write the latencies' percentiles to this file, as HdrHistogram does")
      ->type_name("FILE");
  command->add_option("--plot", arguments->plot_file, "Draw them to this file, as SVG")
      ->type_name("FILE");
  needs_cluster(*command, session, [&session, arguments] { return bench(session, *arguments); });
}

}  // namespace

void add_bench_command(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("bench", "Measure a cluster: throughput and latencies");
  group->require_subcommand(0, 1);
  group->footer(
      "Closed loop: each client sends its next operation when the last was answered. With --rate,\n"
      "operations begin on time and wait for a free client if there is none, and their waiting is\n"
      "part of their latency. Without --table a table is made for the run and dropped after it.\n\n"
      "Examples:\n"
      "  ramcloud bench read --clients 8 --duration 10s\n"
      "  ramcloud bench write --size 1000 --span 3 --json > write.json\n"
      "  ramcloud bench multiread --batch 80 --clients 4\n"
      "  ramcloud bench ycsb-b --keys 1000000 --clients 64 --plot latency.svg\n");
  for (const workload::Workload& workload : workload::workloads()) {
    add_workload(*group, session, workload);
  }
}

}  // namespace ramcloud::cli
