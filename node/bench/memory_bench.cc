// What writing costs when memory is full: overwrites a second against memory utilisation, with the
// cleaner at work, for sizes of values and patterns of access [Rumble14 §8.1, figures 8 and 9].
// Without a network and replicas. Each turn of the writer is a multi-write of 75 [Rumble14 §8.1].
//
// Utilisation is the memory that live objects take, at rest, of what they may have: the log without
// its reserves (MemoryRig::bytes_for_objects). Each run fills a log, overwrites until cleaning has
// settled, and measures then. Runs of all utilisations alternate, round by round.
//
// With --cleaner-threads 0 one thread does everything, and rates are by its CPU time. With 1 the
// writer has a core of its own, as in a server.
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

struct Options {
  uint64_t memory_mib = 1024;
  std::vector<double> utilisations = {30, 50, 70, 80, 90, 95, 98};  // percent
  std::vector<uint64_t> value_bytes = {100, 1000, 10000};
  std::vector<std::string> access = {kAccessNames[0], kAccessNames[1], kAccessNames[2]};
  std::vector<uint32_t> cleaner_threads = {0, 1};
  std::string cleaning = "one-level", policy = "cost-benefit";
  double warm_up = 2, measured = 1;       // of the log's memory, that is appended
  double warm_seconds = 10, seconds = 5;  // at most
  uint32_t rounds = 1;
  uint64_t seed = 1;
  bool json = false;
  int writer_cpu = -1, cleaner_cpu = -1;
};

struct Run {
  double utilisation = 0;
  uint64_t value_bytes = 0;
  Access access = Access::kUniform;
  uint32_t cleaner_threads = 0;
  uint64_t seed = 0;
};

struct Result {
  uint64_t objects = 0, live_bytes = 0;
  double writes = 0, seconds = 0;
  double cleaner_share = 0;     // of a core, of threads that clean
  double copied_per_freed = 0;  // bytes of entries
  double copied_per_written = 0;
  bool settled = false;  // all of the warm-up was done
  bool full = false;     // a write found no memory, and the run ended
};

class Overwriter {
 public:
  Overwriter(MemoryRig& rig, const Run& run, uint64_t objects)
      : rig_(rig),
        by_cpu_(run.cleaner_threads == 0),
        chooser_(run.access, objects),
        random_(run.seed),
        value_(run.value_bytes, 'v') {}

  void write(uint64_t i) {
    char key[kKeyBytes];
    make_key(i, key);
    full_ = full_ || rig_.write({key, kKeyBytes}, value_) != StatusCode::kOk;
  }
  void fill(uint64_t objects) {
    for (uint64_t i = 0; i < objects && !full_; ++i) {
      write(i);
      if (i % MemoryRig::kGroup == 0) rig_.turn();
    }
  }
  /// Until so many bytes were appended, or a time has passed; true if the former. Counts writes.
  bool overwrite(uint64_t bytes, double seconds, uint64_t& writes) {
    const double begin = now_seconds();
    const uint64_t end = rig_.appended_bytes() + bytes;
    for (;;) {
      for (int turn = 0; turn < 64; ++turn) {
        if (full_) return false;
        overwrite_group();
        rig_.turn();
      }
      writes += 64 * MemoryRig::kGroup;
      if (rig_.appended_bytes() >= end) return true;
      if (now_seconds() - begin >= seconds) return false;
    }
  }

  bool full() const { return full_; }
  /// With one thread its CPU time: what else runs on the machine then counts for little.
  double now_seconds() const {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    return by_cpu_ ? thread_seconds() : now.count();
  }

 private:
  void overwrite_group() {
    char bytes[MemoryRig::kGroup][kKeyBytes];
    ByteView keys[MemoryRig::kGroup];
    for (size_t i = 0; i < MemoryRig::kGroup; ++i) {
      make_key(chooser_.next(random_), bytes[i]);
      keys[i] = {bytes[i], kKeyBytes};
    }
    full_ = full_ || rig_.write_group(keys, value_) != StatusCode::kOk;
  }

  MemoryRig& rig_;
  const bool by_cpu_;
  AccessChooser chooser_;
  Random random_;
  std::string value_;
  bool full_ = false;
};

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

Result measure(const Options& options, const Run& run) {
  const uint64_t log_bytes = options.memory_mib << 20;
  const double at_rest = bytes_at_rest(kKeyBytes, run.value_bytes);
  MemoryRig rig({.log_bytes = log_bytes,
                 .objects = static_cast<uint64_t>(static_cast<double>(log_bytes) / at_rest),
                 .cleaning = parse_cleaning(options.cleaning),
                 .policy = parse_policy(options.policy),
                 .cleaner_threads = run.cleaner_threads,
                 .writer_cpu = options.writer_cpu,
                 .cleaner_cpu = options.cleaner_cpu});
  const auto objects = static_cast<uint64_t>(static_cast<double>(rig.bytes_for_objects()) *
                                             run.utilisation / 100 / at_rest);
  if (objects == 0) give_up("no object fits: --memory-mib is too small");
  Overwriter overwriter(rig, run, objects);
  overwriter.fill(objects);
  const auto bytes = [&](double part) {
    return static_cast<uint64_t>(part * static_cast<double>(log_bytes));
  };
  Result result{.objects = objects,
                .live_bytes = objects * entry_bytes(kKeyBytes, run.value_bytes)};
  uint64_t writes = 0;
  result.settled = overwriter.overwrite(bytes(options.warm_up), options.warm_seconds, writes);
  writes = 0;
  const log::CleanerState before = rig.cleaner();
  const double cleaner_before = rig.cleaner_seconds();
  const uint64_t appended_before = rig.appended_bytes();
  const double begin = overwriter.now_seconds();
  (void)overwriter.overwrite(bytes(options.measured), options.seconds, writes);
  const log::CleanerState after = rig.cleaner();
  const auto copied = static_cast<double>(after.bytes_written - before.bytes_written +
                                          after.bytes_compacted - before.bytes_compacted);
  const auto read = static_cast<double>(after.bytes_read - before.bytes_read);
  result.full = overwriter.full();
  if (result.full) fmt::print(stderr, "a write found no memory: {}\n", rig.cleaner().why);
  result.writes = static_cast<double>(writes);
  result.seconds = overwriter.now_seconds() - begin;
  result.cleaner_share = (rig.cleaner_seconds() - cleaner_before) / result.seconds;
  result.copied_per_freed = ratio(copied, read - copied);
  result.copied_per_written =
      ratio(copied, static_cast<double>(rig.appended_bytes() - appended_before));
  return result;
}

void print(const Options& options, const Run& run, const Result& r) {
  const char* access = kAccessNames[static_cast<size_t>(run.access)];
  const double rate = r.full ? 0 : r.writes / r.seconds;
  if (options.json) {
    fmt::print(
        R"({{"cleaning":"{}","cleaner_threads":{},"access":"{}","value_bytes":{},"utilisation":{},)"
        R"("objects":{},"live_bytes":{},"log_bytes":{},"writes_per_s":{:.0f},"cleaner_share":{:.3f},)"
        R"("copied_per_freed":{:.3f},"copied_per_written":{:.3f},"settled":{},"full":{}}})"
        "\n",
        options.cleaning, run.cleaner_threads, access, run.value_bytes, run.utilisation, r.objects,
        r.live_bytes, options.memory_mib << 20, rate, r.cleaner_share, r.copied_per_freed,
        r.copied_per_written, r.settled, r.full);
  } else {
    fmt::print(
        "{:12} {:6} B {:3} % {:5} MiB live, {} cleaner threads ({:3.0f} % of a core): {:8.3f} M "
        "writes/s, {:6.2f} bytes copied for each freed, {:6.2f} for each written{}\n",
        access, run.value_bytes, run.utilisation, r.live_bytes >> 20, run.cleaner_threads,
        100 * r.cleaner_share, rate / 1e6, r.copied_per_freed, r.copied_per_written,
        r.full      ? " (a write found no memory)"
        : r.settled ? ""
                    : " (not settled)");
  }
  std::fflush(stdout);
}

int run_all(const Options& options) {
  for (uint32_t round = 0; round < options.rounds; ++round) {
    for (size_t access = 0; access < std::size(kAccessNames); ++access) {
      if (std::ranges::find(options.access, kAccessNames[access]) == options.access.end()) continue;
      for (const uint64_t value_bytes : options.value_bytes) {
        for (const uint32_t threads : options.cleaner_threads) {
          for (const double utilisation : options.utilisations) {
            const Run run{utilisation, value_bytes, static_cast<Access>(access), threads,
                          options.seed + round};
            print(options, run, measure(options, run));
          }
        }
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("Overwrites a second against memory utilisation, with the cleaner at work.");
  app.add_option("--memory-mib", options.memory_mib, "of the log")
      ->check(CLI::Range(64u, 1u << 20))
      ->capture_default_str();
  app.add_option("--utilisation", options.utilisations, "percent of the memory for objects")
      ->check(CLI::Range(1.0, 98.0))
      ->delimiter(',');
  app.add_option("--value-bytes", options.value_bytes, "of a value")
      ->check(CLI::Range(0u, 1u << 20))
      ->delimiter(',');
  app.add_option("--access", options.access, "uniform, zipfian, hot-and-cold")
      ->check(CLI::IsMember({"uniform", "zipfian", "hot-and-cold"}))
      ->delimiter(',');
  app.add_option("--cleaner-threads", options.cleaner_threads, "0: the writer cleans in its turns")
      ->check(CLI::Range(0, 1))
      ->delimiter(',');
  app.add_option("--cleaning", options.cleaning, "one-level or two-level")
      ->check(CLI::IsMember({"one-level", "two-level"}))
      ->capture_default_str();
  app.add_option("--policy", options.policy, "cost-benefit, object-age, greedy or lfs")
      ->check(CLI::IsMember({"cost-benefit", "object-age", "greedy", "lfs"}))
      ->capture_default_str();
  app.add_option("--warm-up", options.warm_up, "times the log's memory is appended before")
      ->capture_default_str();
  app.add_option("--measured", options.measured, "times the log's memory is appended then")
      ->capture_default_str();
  app.add_option("--warm-seconds", options.warm_seconds, "at most, for the former")
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "at most, for the latter")->capture_default_str();
  app.add_option("--rounds", options.rounds, "in which all take turns")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of what is drawn")->capture_default_str();
  app.add_option("--writer-cpu", options.writer_cpu, "where the writer runs");
  app.add_option("--cleaner-cpu", options.cleaner_cpu, "where a cleaner thread runs");
  app.add_flag("--json", options.json, "a line of JSON for each run");
  CLI11_PARSE(app, argc, argv);
  return run_all(options);
}
