#include "transport/tcp/output_queue.h"

#include <algorithm>
#include <utility>

namespace ramcloud::tcp {

void OutputQueue::append(ByteView bytes) {
  while (!bytes.empty()) {
    if (blocks_.empty() || !blocks_.back().may_grow || blocks_.back().bytes.size() == kBlockBytes) {
      blocks_.emplace_back();
      memory_ += blocks_.back().bytes.capacity();
    }
    std::string& block = blocks_.back().bytes;
    const size_t fits = std::min(bytes.size(), kBlockBytes - block.size());
    const size_t wanted = block.size() + fits;
    if (block.capacity() < wanted) {
      const size_t before = block.capacity();
      block.reserve(std::min(kBlockBytes, std::max({kFirstBytes, wanted, 2 * before})));
      memory_ += block.capacity() - before;
    }
    block.append(bytes.substr(0, fits));
    size_ += fits;
    bytes.remove_prefix(fits);
  }
}

void OutputQueue::append_owned(std::string&& bytes) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  memory_ += bytes.capacity();
  blocks_.push_back({std::move(bytes), false});
}

size_t OutputQueue::pieces(std::span<iovec> out, size_t at_most) const {
  size_t count = 0;
  size_t skip = begin_;
  for (const Block& block : blocks_) {
    if (count == out.size() || at_most == 0) break;
    const size_t take = std::min(block.bytes.size() - skip, at_most);
    if (take > 0) out[count++] = {const_cast<char*>(block.bytes.data()) + skip, take};
    at_most -= take;
    skip = 0;
  }
  return count;
}

void OutputQueue::consume(size_t n) {
  size_ -= n;
  begin_ += n;
  while (!blocks_.empty() && begin_ >= blocks_.front().bytes.size()) {
    Block& first = blocks_.front();
    begin_ -= first.bytes.size();
    if (blocks_.size() == 1 && first.may_grow) {
      first.bytes.clear();  // keeps its memory
      return;
    }
    memory_ -= first.bytes.capacity();
    blocks_.pop_front();
  }
}

void OutputQueue::clear() {
  blocks_.clear();
  begin_ = size_ = memory_ = 0;
}

}  // namespace ramcloud::tcp
