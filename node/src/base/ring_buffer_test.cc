#include "base/ring_buffer.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/random.h"

namespace ramcloud {
namespace {

TEST(RingBuffer, BehavesLikeAQueue) {
  RingBuffer<uint64_t> ring;
  std::deque<uint64_t> model;
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    // Drifts up and down, so that it grows while wrapped.
    if (model.empty() || random.below(1000) < (i / 2000 % 2 == 0 ? 600u : 400u)) {
      const uint64_t value = random.next();
      ring.push() = value;
      model.push_back(value);
    } else {
      ASSERT_EQ(ring.front(), model.front());
      ring.pop();
      model.pop_front();
    }
    ASSERT_EQ(ring.size(), model.size());
    ASSERT_EQ(ring.empty(), model.empty());
  }
}

}  // namespace
}  // namespace ramcloud
