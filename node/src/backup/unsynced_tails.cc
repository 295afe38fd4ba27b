#include "backup/unsynced_tails.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace ramcloud {
namespace {

constexpr uint32_t block_below(uint32_t offset) {
  return offset / UnsyncedTails::kBlock * UnsyncedTails::kBlock;
}

}  // namespace

bool UnsyncedTails::possible(const FrameStore& frames) {
  return frames.direct_block() > 0 && kBlock % frames.direct_block() == 0;
}

UnsyncedTails::UnsyncedTails(FrameStore& frames, uint32_t buffers) : frames_(frames) {
  const size_t bytes = size_t{buffers} * kBufferBytes;
  memory_.reset(static_cast<char*>(std::aligned_alloc(kBlock, bytes)), &std::free);
  if (memory_ == nullptr) throw std::bad_alloc();
  // The lowest first, so that a server with little load touches few pages.
  for (uint32_t i = buffers; i-- > 0;) free_.push_back(memory_.get() + size_t{i} * kBufferBytes);
  unwritten_.reserve(buffers);
  full_.reserve(buffers);
  writing_.reserve(buffers);
  batch_.reserve(buffers);
}

UnsyncedTails::~UnsyncedTails() {
  *alive_ = false;
}

// ---- bytes that come ----------------------------------------------------------------------------

/// Bytes that fit without another buffer.
uint32_t UnsyncedTails::room_in(const Tail& tail) {
  return tail.buffer == nullptr ? 0 : tail.begin + kBufferBytes - tail.end;
}

/// The buffer begins with the block that contains `end`.
void UnsyncedTails::take_buffer(Tail& tail) {
  tail.buffer = free_.back();
  free_.pop_back();
  tail.begin = block_below(tail.end);
  std::memcpy(tail.buffer, tail.last_block.data(), tail.end - tail.begin);
  if (!std::exchange(tail.unwritten, true)) unwritten_.push_back(&tail);
}

Status UnsyncedTails::append(uint32_t frame, ByteView bytes) {
  if (bytes.empty()) return {};
  const SpinGuard guard(lock_);
  auto& tail = tails_[frame];
  if (tail == nullptr) {
    tail = std::make_unique<Tail>();
    tail->frame = frame;
  }
  const uint32_t room = room_in(*tail);
  if (bytes.size() > room) {
    // The first block of a new buffer may be partly filled.
    const uint64_t taken = tail->buffer == nullptr ? tail->end % kBlock : 0;
    const uint64_t more = bytes.size() - room + taken;
    if ((more + kBufferBytes - 1) / kBufferBytes > free_.size()) {
      return {StatusCode::kRetry, "this backup's buffers wait for its device"};
    }
  }
  while (!bytes.empty()) {
    if (tail->buffer == nullptr) take_buffer(*tail);
    const auto n = static_cast<uint32_t>(std::min<size_t>(bytes.size(), room_in(*tail)));
    std::memcpy(tail->buffer + (tail->end - tail->begin), bytes.data(), n);
    bytes.remove_prefix(n);
    tail->end += n;
    if (room_in(*tail) == 0) seal(*tail);
  }
  return {};
}

/// Moves the buffer to the next batch.
void UnsyncedTails::seal(Tail& tail) {
  const uint32_t used = tail.end - tail.begin;
  const uint32_t rest = tail.end % kBlock;
  const uint32_t blocks = used - rest + (rest > 0 ? kBlock : 0);
  std::memset(tail.buffer + used, 0, blocks - used);
  std::memcpy(tail.last_block.data(), tail.buffer + used - rest, rest);
  full_.push_back({{tail.frame, tail.begin, {tail.buffer, blocks}}, tail.buffer});
  tail.buffer = nullptr;
}

void UnsyncedTails::forget(uint32_t frame) {
  const SpinGuard guard(lock_);
  const auto found = tails_.find(frame);
  if (found == tails_.end()) return;
  Tail* tail = found->second.get();
  if (tail->buffer != nullptr) free_.push_back(tail->buffer);
  std::erase(unwritten_, tail);
  for (const Full& full : full_) {
    if (full.write.frame == frame) free_.push_back(full.buffer);
  }
  std::erase_if(full_, [frame](const Full& full) { return full.write.frame == frame; });
  tails_.erase(found);
}

// ---- batches ------------------------------------------------------------------------------------

void UnsyncedTails::commit(std::function<void(Status)> done) {
  waiting_.push_back(std::move(done));
  begin_batches();
}

/// Starts batches until one is in flight or no caller waits. A callback may commit again, or
/// destroy this.
void UnsyncedTails::begin_batches() {
  if (beginning_) return;
  beginning_ = true;
  const std::shared_ptr<bool> alive = alive_;
  while (*alive && !under_way_ && !waiting_.empty()) {
    std::swap(waiting_, serving_);
    if (failed_.ok() && write_batch()) break;
    finish(failed_);
  }
  if (*alive) beginning_ = false;
}

/// Moves all buffers to the next batch; false if there are none.
bool UnsyncedTails::seal_all() {
  const SpinGuard guard(lock_);
  for (Tail* tail : unwritten_) {
    tail->unwritten = false;
    if (tail->buffer != nullptr) seal(*tail);
  }
  unwritten_.clear();
  if (full_.empty()) return false;
  std::ranges::sort(
      full_, {}, [](const Full& full) { return std::pair(full.write.frame, full.write.offset); });
  std::swap(full_, writing_);
  return true;
}

/// False if there is nothing to write.
bool UnsyncedTails::write_batch() {
  if (!seal_all()) return false;
  batch_.clear();
  for (const Full& full : writing_) batch_.push_back(full.write);
  under_way_ = true;
  frames_.write_direct(batch_, memory_, [this, alive = alive_](const Status& status) {
    if (!*alive) return;
    under_way_ = false;
    {
      const SpinGuard guard(lock_);
      for (const Full& full : writing_) free_.push_back(full.buffer);
    }
    writing_.clear();
    if (!status.ok()) failed_ = status;
    const std::shared_ptr<bool> still = alive;
    finish(status);
    if (*still) begin_batches();
  });
  return true;
}

void UnsyncedTails::finish(const Status& status) {
  Waiters told = std::exchange(serving_, {});
  const std::shared_ptr<bool> alive = alive_;
  for (auto& done : told) {
    if (!*alive) return;
    done(status);
  }
}

}  // namespace ramcloud
