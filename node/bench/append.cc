// How appending scales with threads (docs/design/runtime.md#several-reactors-in-a-server: four
// reactors should append at least three times what one does). Two loads, without network and
// replication: `write` is a whole write of the store (hash table, stripe lock, head lock), as a
// reactor does one; `log` appends groups of one object and does nothing else, so it is the head
// lock that is measured. Rounds with each number of threads alternate, so that what else the
// machine does meets all of them; the medians and their ratios are printed.
//
// Each round fills the log once, so --memory-mib is also what a round writes. Threads beyond the
// number of cores show what waiting for a lock that is not running costs, not scaling.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bench/median.h"
#include "bench/options.h"
#include "log/log.h"
#include "runtime/thread.h"
#include "store/object_store.h"

namespace ramcloud {
namespace {

constexpr uint64_t kTable = 1;

enum class Load : uint8_t { kLog, kWrite };

struct Options {
  int64_t threads = 2;
  int64_t rounds = 9;
  int64_t bytes = 100;  // of a value
  int64_t memory_mib = 512;
  bool json = false;
};

/// Appends until the log is full; how many groups.
uint64_t append_until_full(log::Log& log, const std::string& value, uint64_t table_id) {
  log::ObjectBody body{};
  body.table_id = table_id;
  body.key_length = 8;
  uint64_t appended = 0;
  for (;; ++appended) {
    body.version = appended + 1;
    const std::string_view key(reinterpret_cast<const char*>(&appended), sizeof appended);
    const log::EntrySource source{
        log::EntryType::kObject, 3, {Slice(&body, sizeof body), Slice(key), Slice(value)}};
    log::Appended where;
    const char* ref = nullptr;
    const StatusCode status = log.append(std::span(&source, 1), false, where, &ref);
    if (status == StatusCode::kRetry) continue;
    if (status != StatusCode::kOk) return appended;
  }
}

/// Writes new objects until the log is full; how many.
uint64_t write_until_full(store::ObjectStore& store, const std::string& value, uint64_t thread) {
  uint64_t written = 0;
  for (;; ++written) {
    const uint64_t words[] = {thread, written * 0x9e3779b97f4a7c15};
    const std::string_view key(reinterpret_cast<const char*>(words), sizeof words);
    uint64_t version = 0;
    log::LogPosition depends_on;
    const StatusCode status = store.write(kTable, key, value, {}, version, depends_on);
    if (status == StatusCode::kRetry) continue;
    if (status != StatusCode::kOk) return written;
  }
}

/// What `work` (called with a thread's number) did on so many threads together, a second.
double rate_of(int64_t threads, const std::function<uint64_t(int64_t)>& work) {
  std::atomic<int64_t> ready{0};
  std::atomic<bool> go{false};
  std::atomic<uint64_t> done{0};
  std::vector<Thread> running;
  for (int64_t i = 0; i < threads; ++i) {
    running.emplace_back("append", [&, i] {
      ready.fetch_add(1);
      while (!go.load()) std::this_thread::yield();
      done.fetch_add(work(i));
    });
  }
  while (ready.load() != threads) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  go.store(true);
  for (Thread& thread : running) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(done.load()) / took.count();
}

double round_of(log::Arena& arena, const Options& options, Load load, int64_t threads) {
  log::NullReplicator replicator;
  log::LogOptions log_options;
  log_options.master_id = 1;
  log::Log log(arena, replicator, std::move(log_options));
  const std::string value(static_cast<size_t>(options.bytes), 'v');
  if (load == Load::kLog) {
    log.start();
    return rate_of(threads, [&](int64_t i) {
      return append_until_full(log, value, static_cast<uint64_t>(i));
    });
  }
  SystemClock clock;
  const auto objects =
      static_cast<uint64_t>(options.memory_mib << 20) / static_cast<uint64_t>(options.bytes + 64);
  store::ObjectStore store(log, clock, {.buckets = std::bit_ceil(objects / 4 + 1)});
  log.start();
  if (!store.take_tablet(kTable, 0, ~uint64_t{0}).ok()) return 0;
  return rate_of(
      threads, [&](int64_t i) { return write_until_full(store, value, static_cast<uint64_t>(i)); });
}

void print(const Options& options, const char* load,
           const std::vector<std::vector<double>>& rates) {
  const double one = bench::median(rates[0]);
  for (size_t i = 0; i < rates.size(); ++i) {
    if (options.json) {
      fmt::print("{{\"load\":\"{}\",\"threads\":{},\"rates\":[{:.0f}]}}\n", load, i + 1,
                 fmt::join(rates[i], ","));
      continue;
    }
    const auto [low, high] = std::ranges::minmax(rates[i]);
    fmt::print("{}, {} threads: {:.2f} M/s (median of {}; {:.2f} to {:.2f}), {:.2f} x one thread\n",
               load, i + 1, bench::median(rates[i]) / 1e6, options.rounds, low / 1e6, high / 1e6,
               bench::median(rates[i]) / one);
  }
}

int run(const Options& options) {
  log::Arena arena(static_cast<uint64_t>(options.memory_mib) << 20, {});
  for (const Load load : {Load::kWrite, Load::kLog}) {
    std::vector<std::vector<double>> rates(static_cast<size_t>(options.threads));
    (void)round_of(arena, options, load, 1);  // warms up
    for (int64_t round = 0; round < options.rounds; ++round) {
      for (size_t i = 0; i < rates.size(); ++i) {
        rates[i].push_back(round_of(arena, options, load, static_cast<int64_t>(i) + 1));
      }
    }
    print(options, load == Load::kLog ? "log" : "write", rates);
  }
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("Appends and writes with one thread and with more, without network or replicas.");
  bench::add_number(app, "--threads", options.threads, 1, 64, "at most");
  bench::add_number(app, "--rounds", options.rounds, 1, 1000, "with each number of threads");
  bench::add_number(app, "--bytes", options.bytes, 0, 1 << 20, "of a value");
  bench::add_number(app, "--memory-mib", options.memory_mib, 64, 65536,
                    "the log, which a round fills once");
  app.add_flag("--json", options.json, "a line of JSON for each load");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
