// Output of a connection that waits for its socket.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <list>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"

namespace ramcloud::tcp {

/// A queue of bytes in blocks: adding bytes never moves earlier ones, so the cost does not depend
/// on the length of the queue. Large results are moved in without a copy. An empty queue keeps its
/// last block, so that small output allocates nothing in steady state.
class OutputQueue {
 public:
  /// The size of a block that bytes are copied to. The first block starts smaller.
  static constexpr size_t kBlockBytes = 32u << 10;
  static constexpr size_t kFirstBytes = 512;

  OutputQueue() = default;
  OutputQueue(OutputQueue&& other) noexcept
      : blocks_(std::move(other.blocks_)),
        begin_(std::exchange(other.begin_, 0)),
        size_(std::exchange(other.size_, 0)),
        memory_(std::exchange(other.memory_, 0)) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Memory of all blocks.
  size_t memory() const { return memory_; }

  void append(ByteView bytes);
  void append_owned(std::string&& bytes);
  /// Fills `out` with pieces of the first bytes, `at_most` bytes in all. Returns how many pieces.
  size_t pieces(std::span<iovec> out, size_t at_most) const;
  void consume(size_t n);
  /// Frees the memory of an empty queue.
  void clear();

 private:
  struct Block {
    std::string bytes;
    bool may_grow = true;
  };
  std::list<Block> blocks_;
  size_t begin_ = 0;  // consumed bytes of the first block
  size_t size_ = 0;
  size_t memory_ = 0;
};

}  // namespace ramcloud::tcp
