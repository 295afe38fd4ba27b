// Replay alone, on one core: what a recovery master does with the entries of pages that it fetched
// (docs/design/recovery.md, "Replay"), beside a loop that walks the same pages, and for each entry computes the CRC32C of the body and the XXH3 of the key, copies the
// entry into memory, and stores its address in the first free slot of the key's bucket. It has no
// log format, no versions and no locks, and compares no keys. It is measured as a plain loop, and
// as one that asks for the buckets of sixteen entries before it uses them, as replay does. They
// take turns, round by round; a round rebuilds all.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mapping.h"
#include "base/random.h"
#include "bench/median.h"
#include "bench/options.h"
#include "log/arena.h"
#include "log/log.h"
#include "master/segment_fetch.h"
#include "store/object_store.h"
#include "store/tablet_replay.h"

namespace ramcloud {
namespace {

constexpr uint64_t kTable = 1;
constexpr size_t kKeyBytes = 30;
constexpr uint64_t kMost = ~uint64_t{0};

struct Options {
  int64_t bytes = 1024;  // of a value
  int64_t mib = 128;     // of entries
  int64_t log_mib = 1024;
  int64_t rounds = 9;
  bool json = false;

  uint64_t log_bytes() const { return static_cast<uint64_t>(log_mib) << 20; }
  /// As ramcloudd has it by default: an eighth of the log.
  uint64_t table_bytes() const { return log_bytes() / 8; }
};

[[noreturn]] void give_up(const char* what) {
  fmt::print(stderr, "replay: {}\n", what);
  std::exit(1);
}

/// Replies of backups, with entries in the order of the log. Keys are random.
std::vector<std::string> pages_of(const Options& options, uint64_t& entries) {
  Random random(1);
  std::vector<std::string> pages;
  uint64_t left = static_cast<uint64_t>(options.mib) << 20;
  log::ObjectBody body{};
  body.table_id = kTable;
  body.key_length = kKeyBytes;
  const std::string value(static_cast<size_t>(options.bytes), 'v');
  const size_t length = sizeof body + kKeyBytes + value.size();
  while (left >= length) {
    std::string page(sizeof(wire::RecoveryFetchReply), '\0');
    while (left >= length && page.size() + length < master::SegmentFetch::kPageBytes) {
      ++body.version;
      const std::string key = fmt::format("{:014x}{:016x}", uint64_t{body.version}, random.next());
      std::string bytes(bytes_of(body));
      bytes += key + value;
      const auto type = static_cast<char>(log::EntryType::kObject);
      log::EntryHeader header{};
      header.length_and_type = static_cast<uint32_t>(bytes.size()) |
                               static_cast<uint32_t>(log::EntryType::kObject) << 24;
      header.body_crc = crc32c(bytes, crc32c(ByteView(&type, 1)));
      page += bytes_of(header);
      page += bytes;
      left -= length;
    }
    pages.push_back(std::move(page));
  }
  entries = body.version;
  return pages;
}

/// Seconds that `work` takes.
template <typename Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double replay(const Options& options, const std::vector<std::string>& bodies, uint64_t entries) {
  log::Arena arena(options.log_bytes(), {});
  log::NullReplicator replicator;
  log::LogOptions log_options;
  log_options.master_id = 2;
  log::Log log(arena, replicator, log_options);
  SystemClock clock;
  store::ObjectStore store(log, clock, {.buckets = options.table_bytes() / kCacheLineBytes});
  log.start();
  store::TabletReplay replay(store, 1);
  if (!replay.begin({kTable, 0, kMost}, 0).ok()) give_up("the tablet was refused");
  std::vector<master::FetchedPage> pages(bodies.begin(), bodies.end());
  std::vector<log::EntryView> batch;
  const double seconds = seconds_of([&] {
    for (master::FetchedPage& page : pages) {
      while (!page.empty()) {
        batch.clear();
        // As many as a turn replays at most (master/tablet_recovery).
        size_t bytes = 0;
        while (!page.empty() && bytes < (64u << 10)) {
          const Result<log::EntryView> entry = page.next();
          if (!entry) give_up("a page is not entries");
          batch.push_back(*entry);
          bytes += 1024 + entry->total_length();
        }
        if (replay.replay(batch).status != StatusCode::kOk) give_up("an entry was refused");
      }
    }
  });
  if (replay.counts().objects != entries) give_up("not all entries were replayed");
  return seconds;
}

/// The least that replay takes.
class Bare {
 public:
  Bare(const Options& options, size_t at_once)
      : at_once_(at_once), mask_(options.table_bytes() / sizeof(Bucket) - 1) {
    if (!log_.map(options.log_bytes(), true) || !table_.map(options.table_bytes(), true)) {
      give_up("no memory");
    }
    log_.touch();
    table_.touch();
  }
  void take(ByteView page) {
    size_t at = sizeof(wire::RecoveryFetchReply);
    while (at < page.size()) {
      Entry batch[kAtOnce];
      size_t n = 0;
      for (; n < at_once_ && at < page.size(); at += batch[n++].bytes.size()) {
        batch[n] = verified(page.substr(at));
        __builtin_prefetch(&bucket(batch[n].hash), 1);
      }
      for (size_t i = 0; i < n; ++i) take(batch[i]);
    }
  }
  uint64_t stored() const { return stored_; }

 private:
  struct Bucket {
    uint64_t slots[kCacheLineBytes / sizeof(uint64_t)];
  };
  struct Entry {
    ByteView bytes;
    uint64_t hash = 0;
  };
  static constexpr size_t kAtOnce = store::TabletReplay::kAtOnce;

  /// The first entry of these bytes.
  static Entry verified(ByteView bytes) {
    const auto header = load<log::EntryHeader>(bytes.data());
    const ByteView body = bytes.substr(sizeof header, header.length());
    const auto type = static_cast<char>(header.type());
    if (crc32c(body, crc32c(ByteView(&type, 1))) != header.body_crc) give_up("a bad checksum");
    return {bytes.substr(0, sizeof header + body.size()),
            key_hash(kTable, body.substr(sizeof(log::ObjectBody), kKeyBytes))};
  }
  Bucket& bucket(uint64_t hash) { return reinterpret_cast<Bucket*>(table_.data())[hash & mask_]; }
  void take(const Entry& entry) {
    std::memcpy(log_.data() + used_, entry.bytes.data(), entry.bytes.size());
    for (uint64_t& slot : bucket(entry.hash).slots) {
      if (slot != 0) continue;
      slot = (entry.hash >> 32) << 48 | (used_ + 1);
      ++stored_;
      break;
    }
    used_ += entry.bytes.size();
  }
  Mapping log_, table_;
  const size_t at_once_;
  const uint64_t mask_;
  uint64_t used_ = 0;
  uint64_t stored_ = 0;
};

double least(const Options& options, const std::vector<std::string>& bodies, uint64_t entries,
             size_t at_once) {
  Bare bare(options, at_once);
  const std::vector<std::string> pages = bodies;
  const double seconds = seconds_of([&] {
    for (const std::string& page : pages) bare.take(page);
  });
  if (bare.stored() < entries - entries / 1000) give_up("the buckets are too small");
  return seconds;
}

int run(const Options& options) {
  uint64_t entries = 0;
  const std::vector<std::string> pages = pages_of(options, entries);
  const auto each = [&](double seconds) { return seconds * 1e9 / static_cast<double>(entries); };
  std::vector<double> ours, plain, at_once, ratios;
  for (int64_t round = 0; round <= options.rounds; ++round) {
    double mine = round % 2 == 0 ? replay(options, pages, entries) : 0;
    const double loop = least(options, pages, entries, 1);
    const double sixteen = least(options, pages, entries, store::TabletReplay::kAtOnce);
    if (round % 2 != 0) mine = replay(options, pages, entries);
    if (round == 0) continue;  // warms up
    ours.push_back(each(mine));
    plain.push_back(each(loop));
    at_once.push_back(each(sixteen));
    ratios.push_back(loop / mine);
    if (!options.json) continue;
    fmt::print(
        R"({{"value_bytes":{},"entries":{},"replay_ns":{:.1f},"plain_ns":{:.1f},"at_once_ns":{:.1f}}})"
        "\n",
        options.bytes, entries, ours.back(), plain.back(), at_once.back());
    std::fflush(stdout);
  }
  if (options.json) return 0;
  fmt::print(
      "{} entries with values of {} bytes: replay {:.0f} ns an entry, a plain loop {:.0f} ns, "
      "{:.2f} "
      "of its rate ({:.2f} to {:.2f}); sixteen at once {:.0f} ns; medians of {} rounds\n",
      entries, options.bytes, bench::median(ours), bench::median(plain), bench::median(ratios),
      std::ranges::min(ratios), std::ranges::max(ratios), bench::median(at_once), options.rounds);
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("Replays fetched entries on one core, beside a plain loop.");
  bench::add_number(app, "--bytes", options.bytes, 0, 1 << 20, "of a value");
  bench::add_number(app, "--mib", options.mib, 1, 1 << 16, "of entries");
  bench::add_number(app, "--log-mib", options.log_mib, 64, 1 << 16, "of log memory");
  bench::add_number(app, "--rounds", options.rounds, 1, 1000, "");
  app.add_flag("--json", options.json, "a line of JSON for each round");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
