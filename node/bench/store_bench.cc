// The single-node store alone, without network and replication, on one core: how many objects a
// second it appends, overwrites and reads at random in a table far larger than the caches, beside
// std::unordered_map doing the same. Rows 3 and 4 of the project's figures.
//
// Keys have 30 bytes. Ours and the map take turns, round by round; a round rebuilds both.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "store/object_store.h"

namespace ramcloud {
namespace {

struct Options {
  int64_t objects = 4'000'000;
  int64_t operations = 4'000'000;  // of each kind after loading
  int64_t value_bytes = 100;
  int64_t rounds = 3;
  int64_t seed = 1;
  bool json = false;
};

constexpr size_t kKeyBytes = 30;
constexpr uint64_t kTable = 1;
constexpr size_t kGroup = 16;

/// The i-th key: 22 bytes that all have, 8 of its own. Cheap, because the measured time includes
/// it.
void make_key(uint64_t i, char* key) {
  std::memcpy(key, "user:0000000000000000/", kKeyBytes - sizeof i);
  const uint64_t spread = i * 0x9e3779b97f4a7c15;
  std::memcpy(key + kKeyBytes - sizeof i, &spread, sizeof i);
}

struct Rates {
  double append = 0, overwrite = 0, read = 0, read_group = 0;  // operations a second
};

template <typename F>
double rate(int64_t operations, F&& each) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < operations; ++i) each(i);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return static_cast<double>(operations) / taken.count();
}

void must(bool good, const char* what) {
  if (good) return;
  fmt::print(stderr, "error: {}\n", what);
  std::exit(1);
}

class Ours {
 public:
  explicit Ours(const Options& options)
      : options_(options),
        arena_(memory_for(options), {}),
        log_(arena_, replicator_, {}),
        store_(log_, clock_,
               {.buckets = std::bit_ceil(static_cast<uint64_t>(options.objects) / 4)}) {
    log_.start();
    must(store_.take_tablet(kTable, 0, ~uint64_t{0}).ok(), "the tablet was refused");
  }

  void write(uint64_t i) {
    char key[kKeyBytes];
    make_key(i, key);
    uint64_t version = 0;
    log::LogPosition depends_on;
    must(store_.write(kTable, {key, kKeyBytes}, value_, {}, version, depends_on) == StatusCode::kOk,
         "a write failed");
  }

  void read(uint64_t i) {
    char key[kKeyBytes];
    make_key(i, key);
    store::ReadResult result;
    must(store_.read(kTable, {key, kKeyBytes}, {}, result) == StatusCode::kOk, "a read failed");
    copy(result);
  }

  /// Several reads at once, as a multi-read does them.
  void read_group(const uint64_t (&which)[kGroup]) {
    char keys[kGroup][kKeyBytes];
    uint64_t hashes[kGroup];
    for (size_t i = 0; i < kGroup; ++i) {
      make_key(which[i], keys[i]);
      hashes[i] = store_.prefetch(kTable, {keys[i], kKeyBytes});
    }
    for (const uint64_t hash : hashes) store_.prefetch_entry(hash);
    for (size_t i = 0; i < kGroup; ++i) {
      store::ReadResult result;
      must(store_.read(kTable, {keys[i], kKeyBytes}, hashes[i], {}, result) == StatusCode::kOk,
           "a read failed");
      copy(result);
    }
  }

 private:
  /// Objects and their overwrites, with what the log adds to each.
  static uint64_t memory_for(const Options& options) {
    const auto writes = static_cast<uint64_t>(options.objects + options.operations);
    return writes * (static_cast<uint64_t>(options.value_bytes) + 250) + (256u << 20);
  }
  void copy(const store::ReadResult& result) {
    result.entry.read(result.value_offset, out_.data(), result.value_length);
    asm volatile("" : : "r"(out_.data()) : "memory");
  }

  const Options& options_;
  SystemClock clock_;
  log::Arena arena_;
  log::NullReplicator replicator_;
  log::Log log_;
  store::ObjectStore store_;
  std::string value_ = std::string(static_cast<size_t>(options_.value_bytes), 'v');
  std::string out_ = value_;
};

/// The baseline: a plain hash map, without a log and without versions.
class Map {
 public:
  explicit Map(const Options& options)
      : value_(static_cast<size_t>(options.value_bytes), 'v'), out_(value_) {
    map_.reserve(static_cast<size_t>(options.objects));
  }
  void write(uint64_t i) {
    char key[kKeyBytes];
    make_key(i, key);
    map_.insert_or_assign(std::string(key, kKeyBytes), value_);
  }
  void read(uint64_t i) {
    char key[kKeyBytes];
    make_key(i, key);
    const auto found = map_.find(std::string(key, kKeyBytes));
    must(found != map_.end(), "a read failed");
    std::memcpy(out_.data(), found->second.data(), found->second.size());
    asm volatile("" : : "r"(out_.data()) : "memory");
  }
  void read_group(const uint64_t (&which)[kGroup]) {
    for (const uint64_t i : which) read(i);
  }

 private:
  std::unordered_map<std::string, std::string> map_;
  std::string value_, out_;
};

template <typename Store>
Rates run(const Options& options, uint64_t seed) {
  Store store(options);
  const auto objects = static_cast<uint64_t>(options.objects);
  Random random(seed);
  // Drawn beforehand, so that the time is that of the store alone.
  std::vector<uint64_t> picks(static_cast<size_t>(options.operations));
  for (uint64_t& pick : picks) pick = random.below(objects);
  const auto picked = [&](int64_t i) { return picks[static_cast<size_t>(i)]; };
  Rates rates;
  rates.append = rate(options.objects, [&](int64_t i) { store.write(static_cast<uint64_t>(i)); });
  rates.overwrite = rate(options.operations, [&](int64_t i) { store.write(picked(i)); });
  rates.read = rate(options.operations, [&](int64_t i) { store.read(picked(i)); });
  constexpr auto kEach = static_cast<int64_t>(kGroup);
  rates.read_group = kEach * rate(options.operations / kEach, [&](int64_t i) {
                       uint64_t which[kGroup];
                       for (size_t j = 0; j < kGroup; ++j)
                         which[j] = picked(i * kEach + static_cast<int64_t>(j));
                       store.read_group(which);
                     });
  return rates;
}

void print(const char* who, const Rates& rates, bool json) {
  if (json) {
    fmt::print(
        R"({{"store":"{}","append":{:.0f},"overwrite":{:.0f},"read":{:.0f},"read_group":{:.0f}}})"
        "\n",
        who, rates.append, rates.overwrite, rates.read, rates.read_group);
  } else {
    fmt::print("{:14} {:9.2f} {:9.2f} {:9.2f} {:9.2f}\n", who, rates.append / 1e6,
               rates.overwrite / 1e6, rates.read / 1e6, rates.read_group / 1e6);
  }
  std::fflush(stdout);
}

}  // namespace

int run_store_bench(const Options& options) {
  if (!options.json) {
    fmt::print(
        "{} objects, {}-byte values, one core; million operations a second\n{:14} {:>9} {:>9} "
        "{:>9} {:>9}\n",
        options.objects, options.value_bytes, "", "append", "overwrite", "read", "read, 16");
  }
  for (int64_t round = 0; round < options.rounds; ++round) {
    const auto seed = static_cast<uint64_t>(options.seed + round);
    const auto ours = [&] { print("RAMCloud", run<Ours>(options, seed), options.json); };
    if (round % 2 == 0) ours();
    print("unordered_map", run<Map>(options, seed), options.json);
    if (round % 2 != 0) ours();
  }
  return 0;
}

}  // namespace ramcloud

int main(int argc, char** argv) {
  ramcloud::Options options;
  CLI::App app("The store of one server alone, beside std::unordered_map taking turns.");
  const auto number = [&](const char* name, int64_t& value, int64_t low, const char* what) {
    app.add_option(name, value, what)
        ->check(CLI::Range(low, int64_t{1} << 40))
        ->capture_default_str();
  };
  number("--objects", options.objects, 1000, "in the table");
  number("--operations", options.operations, 1000, "of each kind");
  number("--value-bytes", options.value_bytes, 1, "of a value");
  number("--rounds", options.rounds, 1, "in which the two take turns");
  number("--seed", options.seed, 0, "of what is drawn");
  app.add_flag("--json", options.json, "a line of JSON for each run");
  CLI11_PARSE(app, argc, argv);
  return ramcloud::run_store_bench(options);
}
