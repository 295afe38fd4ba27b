// For tests of the log and of the layers above it: a log with a fake replicator, and entries.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "log/fake_replicator.h"
#include "log/log.h"

namespace ramcloud::log {

inline constexpr std::array<uint8_t, 16> kTestCluster{
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f};
inline constexpr uint64_t kTestMaster = 7;

inline LogOptions test_log_options(uint32_t reserve_segments = 1, uint32_t cleaner_segments = 0) {
  LogOptions options;
  options.cluster_uuid = kTestCluster;
  options.master_id = kTestMaster;
  options.reserve_segments = reserve_segments;
  options.cleaner_segments = cleaner_segments;
  return options;
}

/// A log with its arena and a fake replicator.
struct TestLog {
  explicit TestLog(uint32_t segments, bool immediate = true, uint32_t reserve_segments = 1,
                   bool started = true, uint32_t cleaner_segments = 0, uint32_t most_segments = 0)
      : arena(uint64_t{segments} * kSegmentBytes,
              {.try_huge_pages = false,
               .prefault = false,
               .most_bytes = uint64_t{most_segments} * kSegmentBytes}),
        replicator(immediate),
        log(arena, replicator, test_log_options(reserve_segments, cleaner_segments)) {
    replicator.attach(log);
    if (started) log.start();
  }
  Arena arena;
  FakeReplicator replicator;
  Log log;
};

/// An object entry; keeps the body's head while the source is used.
struct TestObject {
  TestObject(uint64_t table, uint64_t version, ByteView key, ByteView value)
      : body{.table_id = table,
             .version = version,
             .timestamp_s = 1'700'000'000,
             .key_length = static_cast<uint16_t>(key.size()),
             .extra_keys = 0,
             .flags = 0},
        source{EntryType::kObject, 3, {Slice(&body, sizeof body), Slice(key), Slice(value)}} {}
  ObjectBody body;
  EntrySource source;
};

struct TestTombstone {
  TestTombstone(uint64_t table, uint64_t version, uint64_t segment, ByteView key, bool is_delete)
      : body{.table_id = table,
             .version = version,
             .log_id = kTestMaster,
             .segment_id = segment,
             .timestamp_s = 1'700'000'001,
             .key_length = static_cast<uint16_t>(key.size()),
             .flags = static_cast<uint16_t>(is_delete ? 1 : 0)},
        source{EntryType::kTombstone, 2, {Slice(&body, sizeof body), Slice(key)}} {}
  TombstoneBody body;
  EntrySource source;
};

inline StatusCode append_object(Log& log, uint64_t table, uint64_t version, ByteView key,
                                ByteView value, Appended* appended = nullptr,
                                const char** ref = nullptr) {
  const TestObject object(table, version, key, value);
  Appended ignored;
  const char* ignored_ref = nullptr;
  return log.append(std::span(&object.source, 1), false, appended ? *appended : ignored,
                    ref ? ref : &ignored_ref);
}

}  // namespace ramcloud::log
