// Reading bytes from a frame without blocking the reactor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "backup/frame_store.h"
#include "base/bytes.h"
#include "log/segment_bytes.h"
#include "runtime/reactor.h"

namespace ramcloud {

/// The buffer, kept alive while the device reads.
struct FrameBytes {
  explicit FrameBytes(uint32_t n) : bytes(std::make_shared_for_overwrite<char[]>(n)), size(n) {}
  std::span<char> part(uint32_t offset, uint32_t n) const { return {bytes.get() + offset, n}; }
  ByteView view() const { return {bytes.get(), size}; }
  log::SegmentBytes segment() const { return log::SegmentBytes(view()); }

  std::shared_ptr<char[]> bytes;
  uint32_t size = 0;
};

/// Bytes that are scanned in one slice, so that other work gets its turn.
inline constexpr uint32_t kScanSlice = 64u << 10;

/// Fills all of `to` from `offset` of the frame, reading a MiB at a time.
Task<Status> read_frame(Reactor& reactor, FrameStore& frames, uint32_t frame, uint32_t offset,
                        FrameBytes to);

}  // namespace ramcloud
