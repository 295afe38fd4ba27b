// The log digest [Ousterhout15 §4.5]: which segments the log consists of, as runs of ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace ramcloud::log {

inline constexpr uint32_t kMaxDigestSegments = 1u << 20;

/// Adds ids in rising order; then finish() completes the body of a kLogDigest entry in `out`.
class DigestEncoder {
 public:
  /// `out` is cleared; its capacity is kept.
  explicit DigestEncoder(std::string& out);
  void add(uint64_t segment_id);
  void finish();

 private:
  void end_run();
  std::string& out_;
  uint32_t runs_ = 0;
  uint64_t previous_end_ = 0;  // one above the last id of the run before
  uint64_t start_ = 0;
  uint64_t length_ = 0;  // length of the current run; 0: none
};

/// The ids, rising. Nothing if malformed or more than kMaxDigestSegments.
std::optional<std::vector<uint64_t>> decode_digest(ByteView body);

}  // namespace ramcloud::log
