#include "bench/memory_rig.h"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "store/compaction_pass.h"

namespace ramcloud {
namespace {

constexpr uint64_t kMasterId = 1;
/// As a server has it: server/cleaning.h.
constexpr Duration kShortestSleep = 1ms;
constexpr Duration kLongestSleep = 4ms;

/// A hundredth of the log, as a server keeps it for survivors.
uint32_t cleaner_segments(uint64_t log_bytes) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(log_bytes / log::kSegmentBytes / 100, 1, 16));
}

log::LogOptions log_options(const MemoryRigOptions& options) {
  log::LogOptions all;
  all.master_id = kMasterId;
  if (options.cleaning != Cleaning::kOff) {
    all.cleaner_segments = cleaner_segments(options.log_bytes);
  }
  return all;
}

log::CleanerOptions cleaner_options(const MemoryRigOptions& options) {
  log::CleanerOptions all;
  all.policy = options.policy;
  all.balancer.compaction = options.cleaning == Cleaning::kTwoLevel;
  all.balancer.disk_expansion = 1e6;  // there are no replicas
  return all;
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// A line of /proc/self/status, whose unit is kB.
uint64_t status_bytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size() + 1)) << 10;
  }
  give_up("/proc/self/status has no " + name);
}

}  // namespace

Cleaning parse_cleaning(const std::string& text) {
  if (text == "off") return Cleaning::kOff;
  return text == "two-level" ? Cleaning::kTwoLevel : Cleaning::kOneLevel;
}

log::CleaningPolicy parse_policy(const std::string& text) {
  if (text == "greedy") return log::CleaningPolicy::kGreedy;
  if (text == "object-age") return log::CleaningPolicy::kObjectAge;
  return text == "lfs" ? log::CleaningPolicy::kLfs : log::CleaningPolicy::kCostBenefit;
}

MemoryRig::MemoryRig(const MemoryRigOptions& options)
    : options_(options),
      arena_(options.log_bytes, {}),
      log_(arena_, replicator_, log_options(options)),
      store_(log_, clock_, {.buckets = std::bit_floor(std::max<uint64_t>(options.objects / 4, 8))}),
      judge_(store_),
      cleaner_(
          log_, clock_, cleaner_options(options),
          [this](const log::Segment& segment, log::Look look) {
            return judge_.judge(segment, look);
          },
          [this](log::CleaningKind kind, const std::vector<log::Segment*>& victims) {
            return store::make_pass(store_, kind, victims);
          }) {
  pin_to(options.writer_cpu);
  log_.start();
  if (!store_.take_tablet(kTable, 0, ~uint64_t{0}).ok()) give_up("the tablet was refused");
  if (options.cleaning == Cleaning::kOff) return;
  log_.set_cleaning_helps(true, log_.segment_changes());
  if (options.cleaner_threads > 0) thread_ = Thread("cleaner", [this] { run_cleaner(); });
}

MemoryRig::~MemoryRig() {
  stop_ = true;
  writer_.go_offline();
  thread_.join();
}

StatusCode MemoryRig::try_write(ByteView key, ByteView value) {
  uint64_t version = 0;
  log::LogPosition depends_on;
  return store_.write(kTable, key, value, {}, version, depends_on);
}

template <typename Operation>
StatusCode MemoryRig::until_done(const Operation& operation) {
  for (;;) {
    const StatusCode status = operation();
    if (status == StatusCode::kOk) return status;
    const bool again = status == StatusCode::kRetry ||
                       (status == StatusCode::kOutOfMemory && log_.cleaning_helps());
    if (!again || options_.cleaning == Cleaning::kOff) return status;
    rests_until_ = {};
    turn();
  }
}

StatusCode MemoryRig::write(ByteView key, ByteView value) {
  return until_done([&] { return try_write(key, value); });
}

/// As a server executes it.
StatusCode MemoryRig::write_group(std::span<const ByteView> keys, ByteView value) {
  uint64_t hashes[kGroup];
  for (size_t i = 0; i < keys.size(); ++i) hashes[i] = store_.prefetch(kTable, keys[i]);
  for (size_t i = 0; i < keys.size(); ++i) store_.prefetch_entry(hashes[i]);
  StatusCode status = StatusCode::kOk;
  for (size_t i = 0; i < keys.size() && status == StatusCode::kOk; ++i) {
    status = until_done([&] {
      uint64_t version = 0;
      log::LogPosition depends_on;
      return store_.write(kTable, keys[i], hashes[i], value, {}, version, depends_on);
    });
  }
  return status;
}

StatusCode MemoryRig::remove(ByteView key) {
  return until_done([&] {
    uint64_t version = 0;
    log::LogPosition depends_on;
    return store_.remove(kTable, key, {}, version, depends_on);
  });
}

void MemoryRig::turn() {
  writer_.pass();
  reclaim();
  if (store_.pending_deletes() > 0) (void)store_.sweep(1024);
  if (options_.cleaning != Cleaning::kOff && options_.cleaner_threads == 0) clean_in_turn();
}

/// One grace period at a time, as in a server.
void MemoryRig::reclaim() {
  if (!retired_.empty()) {
    if (!epochs_.passed(retired_in_)) return;
    log_.reclaim(retired_);
    retired_.clear();
  }
  if (!log_.has_retired()) return;
  retired_ = log_.take_retired();
  if (!retired_.empty()) retired_in_ = epochs_.advance(clock_.now());
}

/// Rests when there is nothing to do, until a new head takes data or a while has passed.
bool MemoryRig::clean_in_turn() {
  const uint64_t head = log_.head().segment_id();
  if (rested_at_head_ == head && clock_.now() < rests_until_) return false;
  if (in_turns_.step()) {
    rested_at_head_ = 0;
    return true;
  }
  rested_at_head_ = head;
  rests_until_ = clock_.now() + kShortestSleep;
  return false;
}

void MemoryRig::run_cleaner() {
  pin_to(options_.cleaner_cpu);
  Epochs::Participant participant(epochs_);
  log::Cleaner::Worker worker(cleaner_);
  Duration slept{};
  for (uint64_t steps = 0; !stop_; ++steps) {
    participant.pass();
    if (steps % 64 == 0) {
      cleaner_ns_.store(static_cast<int64_t>(thread_seconds() * 1e9), std::memory_order_relaxed);
    }
    if (worker.step()) {
      slept = {};
      continue;
    }
    participant.go_offline();
    slept =
        worker.passes() > 0 ? kShortestSleep : std::clamp(2 * slept, kShortestSleep, kLongestSleep);
    const uint64_t head = log_.head().segment_id(), changes = log_.room_changes();
    const Time until = clock_.now() + slept;
    // A new head, or memory that became free, ends the sleep; a server is woken then.
    while (!stop_ && clock_.now() < until && log_.head().segment_id() == head &&
           log_.room_changes() == changes) {
      std::this_thread::sleep_for(50us);
    }
    participant.go_online();
  }
  participant.go_offline();
}

double MemoryRig::cleaner_seconds() const {
  return static_cast<double>(cleaner_ns_.load(std::memory_order_relaxed)) * 1e-9;
}

uint64_t MemoryRig::bytes_for_objects() const {
  const uint32_t kept =
      log_.must_stay_free(log::MemoryPurpose::kWrites) + 2 * log::kSegletsPerSegment;
  const uint32_t total = arena_.total_seglets();
  return total > kept ? uint64_t{total - kept} * log::kSegletBytes : 0;
}

uint64_t MemoryRig::table_bytes() const {
  constexpr uint64_t kBucketBytes = 64;
  return store_.table().bucket_count() * kBucketBytes * 9 / 8;  // an eighth is kept for overflow
}

uint64_t entry_bytes(uint64_t key_bytes, uint64_t value_bytes) {
  return sizeof(log::EntryHeader) + sizeof(log::ObjectBody) + key_bytes + value_bytes;
}

double bytes_at_rest(uint64_t key_bytes, uint64_t value_bytes) {
  constexpr uint32_t kEntries = 4096;
  log::CompactedSize size(0, store::Relocation::kGroupedBytes);
  for (uint32_t i = 0; i < kEntries; ++i) {
    size.add(static_cast<uint32_t>(entry_bytes(key_bytes, value_bytes)));
  }
  return static_cast<double>(size.bytes()) / kEntries;
}

void pin_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) give_up(fmt::format("there is no CPU {}", cpu));
}

double thread_seconds() {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}
double process_seconds() {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}
uint64_t resident_bytes() {
  return status_bytes("VmRSS:");
}
uint64_t peak_resident_bytes() {
  return status_bytes("VmHWM:");
}

void give_up(const std::string& what) {
  fmt::print(stderr, "error: {}\n", what);
  std::exit(1);
}

}  // namespace ramcloud
