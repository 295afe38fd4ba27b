// What the cleaner costs a write: latencies of overwrites in a log that is nearly full, with a
// cleaner beside the writer, and in one so large that nothing is cleaned [Rumble14 §8.4, figure 10].
// The store as a library, without a network and replicas. Both take turns, round by round.
//
// The writer begins a write every --gap-us microseconds (as one client would that waits for each
// answer), or right after the last one if that is later; 0: back to back.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/access.h"
#include "bench/memory_rig.h"

namespace ramcloud {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

struct Options {
  uint64_t memory_mib = 1024;
  double utilisation = 90;  // percent
  uint64_t value_bytes = 100;
  double warm_up = 1.5;  // times the log's memory is appended before
  std::vector<double> gaps_us = {16, 4, 0};
  uint64_t writes = 500'000;  // of a run
  uint32_t rounds = 3;
  uint64_t seed = 1;
  bool json = false;
  int writer_cpu = -1, cleaner_cpu = -1;
};

struct Result {
  double p50_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;
  double cleaner_share = 0;  // of a core
};

class Writer {
 public:
  Writer(MemoryRig& rig, uint64_t objects, const Options& options, uint64_t seed)
      : rig_(rig),
        chooser_(Access::kUniform, objects),
        random_(seed),
        value_(options.value_bytes, 'v') {}

  void write(uint64_t i) {
    char key[kKeyBytes];
    make_key(i, key);
    if (rig_.write({key, kKeyBytes}, value_) != StatusCode::kOk) give_up("a write found no memory");
  }
  void fill(uint64_t objects) {
    for (uint64_t i = 0; i < objects; ++i) {
      write(i);
      if (i % 16 == 0) rig_.turn();
    }
  }
  void overwrite(uint64_t bytes) {
    for (const uint64_t end = rig_.appended_bytes() + bytes; rig_.appended_bytes() < end;) {
      for (int i = 0; i < 256; ++i) write(chooser_.next(random_));
      rig_.turn();
    }
  }
  /// Nanoseconds of each write.
  std::vector<uint32_t> measure(uint64_t writes, double gap_us) {
    std::vector<uint32_t> taken(writes, 1);  // touched: no page fault is timed
    const auto gap = std::chrono::nanoseconds(static_cast<int64_t>(gap_us * 1000));
    SteadyTime due = std::chrono::steady_clock::now();
    for (uint32_t& ns : taken) {
      rig_.turn();
      const uint64_t key = chooser_.next(random_);
      SteadyTime begin = std::chrono::steady_clock::now();
      while (begin < due) begin = std::chrono::steady_clock::now();
      write(key);
      const auto took = std::chrono::steady_clock::now() - begin;
      ns = static_cast<uint32_t>(std::min<int64_t>(took.count(), ~uint32_t{0}));
      due = begin + gap;
    }
    return taken;
  }

 private:
  MemoryRig& rig_;
  AccessChooser chooser_;
  Random random_;
  std::string value_;
};

double percentile(std::vector<uint32_t>& values, double share) {
  const auto at = static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

/// As many as make a log that is cleaned so full.
uint64_t objects_of(const Options& options) {
  const MemoryRig rig({.log_bytes = options.memory_mib << 20, .objects = 1, .cleaner_threads = 0});
  return static_cast<uint64_t>(static_cast<double>(rig.bytes_for_objects()) * options.utilisation /
                               100 / bytes_at_rest(kKeyBytes, options.value_bytes));
}

/// As many objects in both cases. Without cleaning the log has room for all that is written.
Result run(const Options& options, uint64_t objects, bool cleans, double gap_us, uint64_t seed) {
  constexpr uint64_t kWriteBytes = 192;  // that a write appends beside keys and values
  const uint64_t memory = options.memory_mib << 20;
  const uint64_t appended = (objects + options.writes) * (options.value_bytes + kWriteBytes);
  MemoryRig rig({.log_bytes = memory + (cleans ? 0 : appended),
                 .objects = objects,
                 .cleaning = cleans ? Cleaning::kOneLevel : Cleaning::kOff,
                 .cleaner_threads = 1,
                 .writer_cpu = options.writer_cpu,
                 .cleaner_cpu = options.cleaner_cpu});
  Writer writer(rig, objects, options, seed);
  writer.fill(objects);
  if (cleans)
    writer.overwrite(static_cast<uint64_t>(options.warm_up * static_cast<double>(memory)));
  const double cleaner_before = rig.cleaner_seconds();
  const SteadyTime begin = std::chrono::steady_clock::now();
  std::vector<uint32_t> taken = writer.measure(options.writes, gap_us);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {.p50_ns = percentile(taken, 0.5),
          .p99_ns = percentile(taken, 0.99),
          .p999_ns = percentile(taken, 0.999),
          .max_ns = percentile(taken, 1),
          .cleaner_share = (rig.cleaner_seconds() - cleaner_before) / seconds.count()};
}

void print(const Options& options, bool cleans, double gap_us, const Result& r) {
  if (options.json) {
    fmt::print(R"({{"cleaner":{},"gap_us":{},"p50_ns":{:.0f},"p99_ns":{:.0f},"p999_ns":{:.0f},)"
               R"("max_ns":{:.0f},"cleaner_share":{:.3f}}})"
               "\n",
               cleans, gap_us, r.p50_ns, r.p99_ns, r.p999_ns, r.max_ns, r.cleaner_share);
  } else {
    fmt::print(
        "a write each {:4} us, cleaner {:3}: p50 {:6.0f} ns, p99 {:8.0f} ns, p99.9 {:9.0f} ns, "
        "max {:.2f} ms; the cleaner uses {:.0f} % of a core\n",
        gap_us, cleans ? "on" : "off", r.p50_ns, r.p99_ns, r.p999_ns, r.max_ns / 1e6,
        100 * r.cleaner_share);
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("Latency of overwrites in a full log with the cleaner, beside one without.");
  app.add_option("--memory-mib", options.memory_mib, "of the log that is cleaned")
      ->check(CLI::Range(64u, 1u << 20))
      ->capture_default_str();
  app.add_option("--utilisation", options.utilisation, "percent")->check(CLI::Range(1.0, 98.0));
  app.add_option("--value-bytes", options.value_bytes, "of a value")
      ->check(CLI::Range(0u, 1u << 20));
  app.add_option("--warm-up", options.warm_up, "times the log's memory is appended before");
  app.add_option("--gap-us", options.gaps_us, "between the begins of two writes")->delimiter(',');
  app.add_option("--writes", options.writes, "of a run")->check(CLI::Range(1000u, 1u << 30));
  app.add_option("--rounds", options.rounds, "in which both take turns");
  app.add_option("--seed", options.seed, "of what is drawn");
  app.add_option("--writer-cpu", options.writer_cpu, "where the writer runs");
  app.add_option("--cleaner-cpu", options.cleaner_cpu, "where the cleaner runs");
  app.add_flag("--json", options.json, "a line of JSON for each run");
  CLI11_PARSE(app, argc, argv);
  const uint64_t objects = objects_of(options);
  for (uint32_t round = 0; round < options.rounds; ++round) {
    for (const double gap_us : options.gaps_us) {
      for (const bool cleans : {round % 2 == 0, round % 2 != 0}) {
        print(options, cleans, gap_us, run(options, objects, cleans, gap_us, options.seed + round));
      }
    }
  }
  return 0;
}
