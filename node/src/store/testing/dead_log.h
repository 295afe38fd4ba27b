// For tests of recovery: entries of a dead master's log, and its objects at the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/random.h"
#include "log/entry_view.h"
#include "log/log_test_support.h"

namespace ramcloud::store::testing {

inline constexpr uint64_t kDeadTable = 1;
inline constexpr uint64_t kDeadMaster = 99;

/// The bytes of an entry, as in a log.
inline std::string entry_bytes(log::EntryType type, const std::string& body) {
  const auto type_byte = static_cast<char>(type);
  const log::EntryHeader header{
      .length_and_type = static_cast<uint32_t>(body.size()) | static_cast<uint32_t>(type) << 24,
      .body_crc = crc32c(body, crc32c(ByteView(&type_byte, 1)))};
  return std::string(bytes_of(header)) + body;
}
inline std::string object_entry(uint64_t version, const std::string& key, const std::string& value,
                                uint64_t table = kDeadTable) {
  const log::TestObject object(table, version, key, value);
  return entry_bytes(log::EntryType::kObject, std::string(bytes_of(object.body)) + key + value);
}
inline std::string tombstone_entry(uint64_t version, const std::string& key,
                                   uint64_t table = kDeadTable) {
  log::TestTombstone tombstone(table, version, 3, key, true);
  tombstone.body.log_id = kDeadMaster;
  return entry_bytes(log::EntryType::kTombstone, std::string(bytes_of(tombstone.body)) + key);
}
inline log::EntryView view_of(const std::string& entry) {
  return {log::SegmentBytes(entry), 0, load<log::EntryHeader>(entry.data())};
}

using Model = std::map<std::string, std::pair<uint64_t, std::string>>;  // version, value

/// Operations of a master on some keys, and the log entries that they left.
struct History {
  History(Random& random, int operations, int keys) {
    std::map<std::string, uint64_t> last;
    for (int i = 0; i < operations; ++i) {
      const std::string key = "key" + std::to_string(random.below(static_cast<uint64_t>(keys)));
      uint64_t& version = last[key];
      const bool there = model.contains(key);
      if (there) entries.push_back(tombstone_entry(version, key));
      if (there && random.chance(0.3)) {
        model.erase(key);
        continue;
      }
      version += 1 + random.below(3);
      const std::string value(random.below(300), static_cast<char>('a' + i % 26));
      entries.push_back(object_entry(version, key, value));
      model[key] = {version, value};
      highest = std::max(highest, version);
    }
  }
  std::vector<std::string> entries;  // in the order of the log
  Model model;                       // the objects at the end
  uint64_t highest = 0;              // version
};

}  // namespace ramcloud::store::testing
