// For benchmarks of memory: a log with its store and its cleaner, without a network and replicas, as
// a server with R = 0 runs them. The thread that writes does what the first reactor does in its
// turns: it frees the memory that cleaning gives back. Passes run on threads beside it, or in its
// turns (docs/design/log.md#who-cleans).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/random.h"
#include "log/cleaner.h"
#include "log/log.h"
#include "runtime/epoch.h"
#include "runtime/thread.h"
#include "store/object_store.h"
#include "store/relocation.h"
#include "store/segment_judge.h"

namespace ramcloud {

/// One level: combined cleaning alone. Two: compaction as well (docs/design/log.md#compaction).
enum class Cleaning : uint8_t { kOff, kOneLevel, kTwoLevel };
/// "off", "one-level" or "two-level".
Cleaning parse_cleaning(const std::string& text);
/// "cost-benefit", "object-age", "greedy" or "lfs".
log::CleaningPolicy parse_policy(const std::string& text);

struct MemoryRigOptions {
  uint64_t log_bytes = uint64_t{1} << 30;
  uint64_t objects = 1 << 20;  // expected: the hash table is made for them
  Cleaning cleaning = Cleaning::kOneLevel;
  log::CleaningPolicy policy = log::CleaningPolicy::kCostBenefit;
  uint32_t cleaner_threads = 1;  // 0: in turns of the writer
  int writer_cpu = -1;           // where the threads are to run; -1: anywhere
  int cleaner_cpu = -1;
};

/// One thread writes, reads and deletes.
class MemoryRig {
 public:
  explicit MemoryRig(const MemoryRigOptions& options);
  ~MemoryRig();
  MemoryRig(const MemoryRig&) = delete;
  MemoryRig& operator=(const MemoryRig&) = delete;

  /// Tries again as long as cleaning helps. Not OK: memory is full for good.
  StatusCode write(ByteView key, ByteView value);
  /// Keys of a multi-write, at most kGroup, all of which get this value.
  StatusCode write_group(std::span<const ByteView> keys, ByteView value);
  static constexpr size_t kGroup = 75;
  StatusCode remove(ByteView key);
  /// One try, without a turn.
  StatusCode try_write(ByteView key, ByteView value);
  /// What a reactor does between requests: once after a few of them.
  void turn();

  /// Bytes of memory that objects may fill: without what is kept for deletes and for cleaning, and
  /// without the two heads that are being filled and opened ahead.
  uint64_t bytes_for_objects() const;
  uint64_t log_bytes() const { return arena_.total_seglets() * uint64_t{log::kSegletBytes}; }
  uint64_t table_bytes() const;
  log::CleanerState cleaner() const { return cleaner_.state(); }
  uint64_t appended_bytes() const { return log_.memory().appended_bytes; }
  /// CPU time of the threads that clean; 0 if the writer does.
  double cleaner_seconds() const;
  store::ObjectStore& store() { return store_; }
  const log::Log& log() const { return log_; }

  static constexpr uint64_t kTable = 1;

 private:
  template <typename Operation>
  StatusCode until_done(const Operation& operation);
  void reclaim();
  bool clean_in_turn();
  void run_cleaner();

  const MemoryRigOptions options_;
  SystemClock clock_;
  Epochs epochs_;
  Epochs::Participant writer_{epochs_};
  log::Arena arena_;
  log::NullReplicator replicator_;
  log::Log log_;
  store::ObjectStore store_;
  store::SegmentJudge judge_;
  log::Cleaner cleaner_;
  log::Cleaner::Worker in_turns_{cleaner_};
  uint64_t rested_at_head_ = 0;  // when the writer's own cleaning found nothing to do
  Time rests_until_{};
  std::vector<log::Segment*> retired_;  // until all have passed retired_in_
  uint64_t retired_in_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> cleaner_ns_{0};
  Thread thread_;  // last: it uses all of it
};

/// Memory that an object takes in the log once it is at rest in a survivor: its entry, its share of
/// the group, and of what is left free at the end of seglets and segments.
double bytes_at_rest(uint64_t key_bytes, uint64_t value_bytes);
/// Bytes of its entry.
uint64_t entry_bytes(uint64_t key_bytes, uint64_t value_bytes);

void pin_to(int cpu);
/// CPU time of this thread and of the process, in seconds.
double thread_seconds();
double process_seconds();
/// Memory of this process that is resident, and the most that was, in bytes.
uint64_t resident_bytes();
uint64_t peak_resident_bytes();

/// Ends the program with this message.
[[noreturn]] void give_up(const std::string& what);

}  // namespace ramcloud
