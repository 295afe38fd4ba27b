#include "transport/tcp/output_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/random.h"

namespace ramcloud::tcp {
namespace {

/// The first bytes, up to so many.
std::string first(const OutputQueue& queue, size_t at_most, size_t most_pieces = 8) {
  std::array<iovec, 8> pieces;
  std::string bytes;
  const size_t count = queue.pieces(std::span(pieces).first(most_pieces), at_most);
  for (size_t i = 0; i < count; ++i) {
    bytes.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  }
  return bytes;
}

TEST(OutputQueue, WhatGoesInComesOutInOrder) {
  Random random(1);
  OutputQueue queue;
  std::string expected, got;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes(random.below(random.chance(0.1) ? 200'000 : 2'000), 0);
    for (size_t at = 0; at < bytes.size(); at += 97) bytes[at] = static_cast<char>(random.next());
    expected += bytes;
    if (random.chance(0.2)) {
      queue.append_owned(std::move(bytes));
    } else {
      queue.append(bytes);
    }
    while (queue.size() > 1u << 20) {
      const std::string piece = first(queue, 1 + random.below(300'000), 1 + random.below(8));
      ASSERT_FALSE(piece.empty());
      queue.consume(piece.size());
      got += piece;
    }
    ASSERT_EQ(queue.size(), expected.size() - got.size());
    ASSERT_GE(queue.memory() + OutputQueue::kBlockBytes, queue.size());
  }
  while (!queue.empty()) {
    const std::string piece = first(queue, 128 << 10);
    queue.consume(piece.size());
    got += piece;
  }
  EXPECT_TRUE(got == expected);
  EXPECT_LE(queue.memory(), OutputQueue::kBlockBytes + 1) << "one block is kept";
  queue.clear();
  EXPECT_EQ(queue.memory(), 0u);
}

TEST(OutputQueue, LargeResultsAreNotCopied) {
  OutputQueue queue;
  queue.append("head");
  std::string large(1 << 20, 'v');
  const char* data = large.data();
  queue.append_owned(std::move(large));
  std::array<iovec, 2> pieces;
  ASSERT_EQ(queue.pieces(pieces, 2 << 20), 2u);
  EXPECT_EQ(pieces[1].iov_base, data);
}

}  // namespace
}  // namespace ramcloud::tcp
