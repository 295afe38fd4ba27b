// How many objects a log and its store hold in some memory, until a write finds none although the
// cleaner works [Rumble14T §8, table 8.3]: values of 25 bytes, or of 0 to 8 KB whose sizes are
// zipfian. What is counted is what the process has resident, hash table included.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "bench/memory_rig.h"

namespace ramcloud {
namespace {

struct Options {
  uint64_t log_mib = 512;
  std::string values = "fixed";
  uint64_t objects = 0;  // expected, for the hash table; 0: as many as fit
  bool json = false;
};

constexpr uint64_t kCapacityKeyBytes = 12;
constexpr uint64_t kFixedBytes = 25;
constexpr uint64_t kMostBytes = 8192;

/// Sizes whose logarithm is uniform: zipfian with an exponent of 1. hack/bench_memory.py draws the
/// same for the peers.
uint64_t value_bytes(const Options& options, Random& random) {
  if (options.values == "fixed") return kFixedBytes;
  const double drawn = static_cast<double>(random.next() >> 11) * 0x1.0p-53;
  return static_cast<uint64_t>(std::exp(drawn * std::log(kMostBytes + 1.0))) - 1;
}

uint64_t expected_objects(const Options& options) {
  const double mean = options.values == "fixed" ? kFixedBytes : kMostBytes / std::log(kMostBytes);
  return static_cast<uint64_t>(static_cast<double>(options.log_mib << 20) /
                               bytes_at_rest(kCapacityKeyBytes, static_cast<uint64_t>(mean)));
}

int run(const Options& options) {
  const uint64_t expected = options.objects > 0 ? options.objects : expected_objects(options);
  MemoryRig rig({.log_bytes = options.log_mib << 20, .objects = expected, .cleaner_threads = 1});
  const std::string value(kMostBytes, 'v');
  Random random(1);
  uint64_t objects = 0, data_bytes = 0;
  for (;; ++objects) {
    const std::string key = fmt::format("{:0{}}", objects, kCapacityKeyBytes);
    const uint64_t bytes = value_bytes(options, random);
    if (rig.write(key, {value.data(), bytes}) != StatusCode::kOk) break;
    data_bytes += key.size() + bytes;
    if (objects % 16 == 0) rig.turn();
  }
  const uint64_t resident = resident_bytes();
  const auto each = [&](uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(objects);
  };
  if (options.json) {
    fmt::print(R"({{"values":"{}","objects":{},"data_bytes":{},"log_bytes":{},"table_bytes":{},)"
               R"("resident_bytes":{}}})"
               "\n",
               options.values, objects, data_bytes, rig.log_bytes(), rig.table_bytes(), resident);
  } else {
    fmt::print("{} objects in {} MiB: {:.0f} per MB, {:.1f} bytes each, {:.1f} of them metadata\n",
               objects, resident >> 20, 1e6 / each(resident), each(resident),
               each(resident - data_bytes));
  }
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("Objects that a log and its store hold in some memory.");
  app.add_option("--log-mib", options.log_mib, "memory of the log")
      ->check(CLI::Range(64u, 1u << 20))
      ->capture_default_str();
  app.add_option("--values", options.values, "fixed (25 bytes) or zipfian (0 to 8 KB)")
      ->check(CLI::IsMember({"fixed", "zipfian"}));
  app.add_option("--objects", options.objects, "that the hash table is made for");
  app.add_flag("--json", options.json, "a line of JSON");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
