// The tablets that a master owns, as the header of each of its heads lists them: so the log alone
// tells which of its objects are live (docs/design/log.md#owned-tablets).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "log/format.h"

namespace ramcloud::log {

inline constexpr uint16_t kOwnedTabletsFormat = 1;
/// A longer list is not written. 16,384 tablets have room, whatever their ranges.
inline constexpr uint32_t kMaxOwnedTabletsBytes = kSegmentBytes / 16;

struct OwnedTablet {
  uint64_t table_id = 0;
  uint64_t start_hash = 0;
  uint64_t end_hash = 0;       // inclusive
  uint64_t first_segment = 0;  // entries in segments with lower ids are of an earlier tablet
  bool operator==(const OwnedTablet&) const = default;
};

/// Adds tablets by rising table and start; then finish() completes the body of a kOwnedTablets
/// entry in `out`.
class OwnedTabletsEncoder {
 public:
  /// `out` is cleared; its capacity is kept, and not exceeded if it is at least `most` bytes.
  OwnedTabletsEncoder(std::string& out, size_t most);
  void add(const OwnedTablet& tablet);
  /// False: the list does not fit in `most` bytes, and `out` is empty.
  bool finish();

 private:
  std::string& out_;
  const size_t most_;
  OwnedTabletsBody body_{.format_version = kOwnedTabletsFormat, .reserved = 0, .count = 0};
  OwnedTablet before_;
  bool fits_ = true;
};

/// By table and start; ranges of a table do not overlap.
using OwnedTablets = std::vector<OwnedTablet>;
/// Nothing if malformed, or of a later format.
std::optional<OwnedTablets> decode_owned_tablets(ByteView body);
/// The tablet that covers the hash, or null.
const OwnedTablet* find_owned(const OwnedTablets& tablets, uint64_t table_id, uint64_t hash);

}  // namespace ramcloud::log
