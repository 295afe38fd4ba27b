// For tests: what a master's log tells by itself.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "log/log_test_support.h"
#include "log/replay.h"

namespace ramcloud::master::testing {

/// The keys of the table that `ramcloud replica rebuild` finds in the log, in order.
inline std::vector<std::string> rebuilt_keys(const log::Log& log, uint64_t table) {
  const std::vector<log::Segment*> segments = log.segments();
  std::vector<std::string> images;
  images.reserve(segments.size());  // the replay has views of them
  log::Replay replay(log::kTestCluster, log::kTestMaster);
  for (const log::Segment* segment : segments) {
    log::ReplicaImage image;
    image.segment_id = segment->id();
    image.bytes = images.emplace_back(log::image_of(*segment));
    replay.add(std::move(image));
  }
  EXPECT_TRUE(replay.run().ok());
  std::vector<std::string> keys;
  replay.for_each([&](const log::ReplayedObject& object) {
    if (object.table_id == table) keys.emplace_back(object.key);
  });
  return keys;
}

}  // namespace ramcloud::master::testing
