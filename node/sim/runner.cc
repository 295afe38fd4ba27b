// `ramcloud-sim`: runs scenarios with given seeds (docs/design/simulation.md#runner).
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "sim/cluster.h"
#include "sim/scenario.h"
#include "sim/shrink.h"

namespace {

using namespace ramcloud;
using namespace ramcloud::sim;

struct Arguments {
  std::string seeds = "1..20";
  uint64_t first = 1, last = 20;
  std::string scenario = "mixed";
  std::string json;
  std::string histories;
  bool trace = false;
  bool shrink = false;
  bool twice = false;
  std::optional<uint32_t> clients, operations;
  std::optional<std::string> faults;
};

/// "A..B" or "A".
bool parse_seeds(const std::string& text, uint64_t& first, uint64_t& last) {
  const size_t dots = text.find("..");
  const std::string ends[] = {text.substr(0, dots),
                              dots == text.npos ? text : text.substr(dots + 2)};
  uint64_t numbers[2]{};
  for (int i = 0; i < 2; ++i) {
    const char* end = ends[i].data() + ends[i].size();
    const auto parsed = std::from_chars(ends[i].data(), end, numbers[i]);
    if (parsed.ec != std::errc() || parsed.ptr != end) return false;
  }
  first = numbers[0];
  last = numbers[1];
  return first <= last && last < UINT64_MAX;
}

/// "none" or "1,4,7".
std::optional<std::vector<uint32_t>> parse_faults(const std::string& text) {
  std::vector<uint32_t> numbers;
  if (text == "none") return numbers;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    uint32_t number = 0;
    const auto parsed = std::from_chars(text.data() + at, text.data() + comma, number);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + comma) return std::nullopt;
    numbers.push_back(number);
    at = comma + 1;
  }
  return numbers;
}

const Scenario& scenario_of(const Arguments& arguments, uint64_t seed) {
  if (const Scenario* one = find_scenario(arguments.scenario)) return *one;
  return scenarios()[seed % scenarios().size()];  // mixed
}

std::string replay_line(const Scenario& scenario, const ScenarioConfig& config) {
  std::string line =
      fmt::format("build/bin/ramcloud-sim --scenario {} --seeds {}", scenario.name, config.seed);
  if (config.clients) line += fmt::format(" --clients {}", *config.clients);
  if (config.operations) line += fmt::format(" --operations {}", *config.operations);
  if (config.faults) {
    std::string numbers;
    for (const uint32_t number : *config.faults) {
      numbers += fmt::format("{}{}", numbers.empty() ? "" : ",", number);
    }
    line += " --faults " + (numbers.empty() ? "none" : numbers);
  }
  return line;
}

/// The present seed, printed if it ends the process.
char present[512];

void note_present(const Scenario& scenario, const ScenarioConfig& config) {
  const std::string line = "replay: " + replay_line(scenario, config) + "\n";
  line.copy(present, sizeof present - 1);
  present[std::min(line.size(), sizeof present - 1)] = 0;
}

void tell_present(int signal) {
  (void)!write(STDERR_FILENO, present, strlen(present));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Sums over all seeds, printed at the end.
struct Summary {
  uint64_t seeds = 0, failed = 0, events = 0, operations = 0;
  Duration virtual_time{};
  std::map<std::string, uint64_t> faults, pairs;
  void add(const Outcome& outcome) {
    ++seeds;
    failed += !outcome.wrong.empty();
    events += outcome.events;
    operations += outcome.operations;
    virtual_time += outcome.virtual_time;
    for (const auto& [kind, count] : outcome.faults) faults[kind] += count;
    for (const auto& [pair, count] : outcome.fault_pairs) pairs[pair] += count;
  }
};

void print_counts(const char* title, const std::map<std::string, uint64_t>& counts) {
  fmt::print("\n{}\n", title);
  for (const auto& [name, count] : counts) fmt::print("{:12}  {}\n", count, name);
}

/// The CPU time of this process.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void print_summary(const Summary& sum, double seconds) {
  print_counts("faults that changed something", sum.faults);
  print_counts("pairs of faults within a second", sum.pairs);
  std::map<std::string, uint64_t> sometimes;
  for (const auto& [point, count] : sometimes_counts()) sometimes[std::string(point)] = count;
  print_counts("cases come by", sometimes);
  const double virtual_seconds = std::chrono::duration<double>(sum.virtual_time).count();
  fmt::print(
      "\n{} seeds in {:.1f} s ({:.0f} a minute), {} failed; {} events, {} operations; {:.1f} s of "
      "virtual time, {:.1f} x real time, {:.1f} x CPU time\n",
      sum.seeds, seconds, static_cast<double>(sum.seeds) * 60 / seconds, sum.failed, sum.events,
      sum.operations, virtual_seconds, virtual_seconds / seconds, virtual_seconds / cpu_seconds());
}

/// Runs one seed; on failure prints why, and how to replay the smallest failing configuration.
Outcome run_seed(const Arguments& arguments, const Scenario& scenario,
                 const ScenarioConfig& config) {
  Outcome outcome = scenario.run(config);
  if (arguments.twice && scenario.run(config).event_hash != outcome.event_hash) {
    outcome.wrong += "the second run of the same seed went another way\n";
  }
  if (arguments.trace) {
    fmt::print("\nplan of seed {}, scenario {}:\n", config.seed, scenario.name);
    for (const auto& [number, text] : outcome.plan) fmt::print("{:4}  {}\n", number, text);
  }
  if (outcome.wrong.empty()) return outcome;
  fmt::print("FAILED {} seed {}: {}\nreplay: {}\n", scenario.name, config.seed, outcome.wrong,
             replay_line(scenario, config));
  if (arguments.shrink) {
    const ScenarioConfig smaller = shrink(
        config, outcome, [&](const ScenarioConfig& c) { return !scenario.run(c).wrong.empty(); });
    const Outcome again = scenario.run(smaller);
    fmt::print("smallest that fails: {}\nreplay: {}\n", again.wrong,
               replay_line(scenario, smaller));
    for (const auto& [number, text] : again.plan) fmt::print("{:4}  {}\n", number, text);
  }
  std::fflush(stdout);
  return outcome;
}

nlohmann::ordered_json line_of(const Scenario& scenario, const ScenarioConfig& config,
                               const Outcome& outcome) {
  return {{"seed", config.seed},
          {"scenario", scenario.name},
          {"ok", outcome.wrong.empty()},
          {"event_hash", fmt::format("{:016x}", outcome.event_hash)},
          {"operations", outcome.operations},
          {"faults", outcome.faults},
          {"why", outcome.wrong},
          {"replay", replay_line(scenario, config)}};
}

int cannot_write(const std::string& path) {
  fmt::print(stderr, "ramcloud-sim: cannot write '{}'\n", path);
  return 3;
}

/// Exit codes: 0 all well, 1 a seed failed, 3 a file cannot be written.
int run_all(const Arguments& arguments, ScenarioConfig config) {
  std::ofstream json;
  if (!arguments.json.empty()) {
    json.open(arguments.json);
    if (!json.is_open()) return cannot_write(arguments.json);
  }
  Summary sum;
  const auto begun = std::chrono::steady_clock::now();
  for (config.seed = arguments.first; config.seed <= arguments.last; ++config.seed) {
    const Scenario& scenario = scenario_of(arguments, config.seed);
    note_present(scenario, config);
    const Outcome outcome = run_seed(arguments, scenario, config);
    sum.add(outcome);
    if (json.is_open()) json << line_of(scenario, config, outcome).dump() << std::endl;
    if (!arguments.histories.empty() && !outcome.history.empty()) {
      const std::string path =
          fmt::format("{}/{}-{}.jsonl", arguments.histories, scenario.name, config.seed);
      std::ofstream file(path);
      file << outcome.history;
      if (!file.good()) {
        return cannot_write(path);
      }
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  print_summary(sum, took.count());
  if (json.is_open() && !json.good()) return cannot_write(arguments.json);
  return sum.failed == 0 ? 0 : 1;
}

std::string scenario_names() {
  std::string text = "mixed (by the seed)";
  for (const Scenario& scenario : scenarios()) {
    text += fmt::format("; {}: {}", scenario.name, scenario.what);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Runs simulated clusters from seeds.", "ramcloud-sim");
  app.add_option("--seeds", arguments.seeds, "A..B, both included, or one")
      ->check([&](const std::string& text) {
        return parse_seeds(text, arguments.first, arguments.last)
                   ? ""
                   : "'" + text + "': accepted is A..B with A <= B, or one number";
      });
  app.add_option("--scenario", arguments.scenario, scenario_names())
      ->check([](const std::string& name) {
        return name == "mixed" || find_scenario(name) != nullptr
                   ? ""
                   : "'" + name + "' is none; accepted are: " + scenario_names();
      });
  app.add_option("--json", arguments.json, "Write one JSON object a seed to this file");
  app.add_option("--histories", arguments.histories,
                 "Write what clients saw to this folder, for a checker of linearizability");
  app.add_flag("--trace", arguments.trace, "Print the faults and events of one seed");
  app.add_flag("--shrink", arguments.shrink,
               "Look for fewer faults, clients and operations that fail all the same");
  app.add_flag("--twice", arguments.twice, "Run each seed twice and compare the event hashes");
  app.add_option("--clients", arguments.clients, "So many at work at the same time")
      ->check(CLI::Range(1, 16));
  app.add_option("--operations", arguments.operations, "Of each client")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--faults", arguments.faults,
                 "Only these of the seed's plan: numbers with commas between, or none")
      ->check([](const std::string& text) {
        return parse_faults(text)
                   ? ""
                   : "'" + text + "': accepted are numbers with commas between, or none";
      });
  CLI11_PARSE(app, argc, argv);
  if (arguments.trace && arguments.first != arguments.last) {
    fmt::print(stderr, "ramcloud-sim: --trace: --seeds is '{}'; accepted is one seed\n",
               arguments.seeds);
    return 2;
  }
  set_log_level(arguments.trace ? LogLevel::kDebug : LogLevel::kError);
  set_tracing(arguments.trace);
  for (const int signal : {SIGABRT, SIGSEGV}) std::signal(signal, tell_present);
  ScenarioConfig config;
  config.clients = arguments.clients;
  config.operations = arguments.operations;
  if (arguments.faults) config.faults = parse_faults(*arguments.faults);
  return run_all(arguments, config);
}
