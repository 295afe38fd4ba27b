// For tests of where a log ends: replicas as backups describe them, made up one by one.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "log/log_end.h"

namespace ramcloud::log {

inline constexpr uint32_t kHeader = 100;

/// Holders are 1, 2 and 3, and all have answered, unless a test changes that.
class LogEndTest : public ::testing::Test {
 protected:
  LogEndTest() {
    answers_.heard = {1, 2, 3};
    answers_.replicas.reserve(32);  // references to them are kept
  }

  FoundReplica& add(uint64_t server, uint64_t segment, uint32_t length) {
    FoundReplica& r = answers_.replicas.emplace_back();
    r.server_id = server;
    r.segment_id = segment;
    r.length = length;
    r.holders = {1, 2, 3};
    return r;
  }
  FoundReplica& closed(uint64_t server, uint64_t segment, uint32_t length) {
    FoundReplica& r = add(server, segment, length);
    r.closed = r.clean_end = r.power_safe = true;
    return r;
  }
  /// An open replica on a host that never rebooted.
  FoundReplica& head(uint64_t server, uint64_t segment, uint32_t length,
                     std::vector<uint64_t> digest) {
    FoundReplica& r = add(server, segment, length);
    r.scanned = r.is_head = r.clean_end = r.power_safe = true;
    r.header_length = kHeader;
    r.has_data = length > kHeader;
    r.digest = std::move(digest);
    r.safe_version = segment * 1000;
    return r;
  }
  /// An open replica that a power cut may have shortened.
  FoundReplica& rebooted(uint64_t server, uint64_t segment, uint32_t length,
                         std::vector<uint64_t> digest) {
    FoundReplica& r = head(server, segment, length, std::move(digest));
    r.power_safe = false;
    return r;
  }
  LogEnd decide() { return decide_log_end(answers_); }
  LogEnd::Outcome outcome() { return decide().outcome; }
  /// The lengths of the segments of a complete log.
  std::map<uint64_t, uint32_t> lengths() {
    std::map<uint64_t, uint32_t> lengths;
    for (const SegmentEnd& segment : decide().segments) {
      lengths[segment.segment_id] = segment.length;
    }
    return lengths;
  }
  using Lengths = std::map<uint64_t, uint32_t>;

  LogAnswers answers_;
};

}  // namespace ramcloud::log
