// The bytes of one segment, wherever they are: one contiguous buffer (a replica that was read from
// a file) or the seglets of a segment in memory. Readers use this class and do not see the borders
// between pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"
#include "log/format.h"

namespace ramcloud::log {

class SegmentBytes {
 public:
  SegmentBytes() = default;
  /// A contiguous buffer; at most kSegmentBytes of it are looked at.
  explicit SegmentBytes(ByteView contiguous)
      : base_(contiguous.data()),
        size_(static_cast<uint32_t>(std::min<size_t>(contiguous.size(), kSegmentBytes))) {}
  /// The first `size` bytes of a segment in memory. The array must outlive this.
  SegmentBytes(const char* const* seglets, uint32_t size) : seglets_(seglets), size_(size) {}

  uint32_t size() const { return size_; }

  /// The contiguous bytes at `offset`: at least one, at most `max`. Requires offset + max <=
  /// size().
  ByteView piece(uint32_t offset, uint32_t max) const {
    if (seglets_ == nullptr) return {base_ + offset, max};
    const uint32_t in_seglet = offset % kSegletBytes;
    return {seglets_[offset / kSegletBytes] + in_seglet, std::min(max, kSegletBytes - in_seglet)};
  }

  /// Copies n bytes out. Requires offset + n <= size(), as do all below.
  void read(uint32_t offset, void* to, uint32_t n) const {
    auto* out = static_cast<char*>(to);
    for_each_piece(offset, n, [&](ByteView piece) {
      std::memcpy(out, piece.data(), piece.size());
      out += piece.size();
      return true;
    });
  }
  template <typename T>
  T load_at(uint32_t offset) const {
    T value;
    const ByteView first = piece(offset, sizeof value);
    if (first.size() == sizeof value) [[likely]] {
      std::memcpy(&value, first.data(), sizeof value);
    } else {
      read(offset, &value, sizeof value);
    }
    return value;
  }

  /// CRC32C of n bytes, continuing from `crc`.
  uint32_t checksum(uint32_t offset, uint32_t n, uint32_t crc = 0) const {
    for_each_piece(offset, n, [&](ByteView piece) {
      crc = crc32c(piece, crc);
      return true;
    });
    return crc;
  }

  bool equals(uint32_t offset, ByteView expected) const {
    bool same = true;
    for_each_piece(offset, static_cast<uint32_t>(expected.size()), [&](ByteView piece) {
      same = std::memcmp(piece.data(), expected.data(), piece.size()) == 0;
      expected.remove_prefix(piece.size());
      return same;
    });
    return same;
  }

  /// Offset of the first byte in [offset, offset + n) that is not zero; offset + n if there is
  /// none.
  uint32_t first_nonzero(uint32_t offset, uint32_t n) const {
    uint32_t at = offset;
    for_each_piece(offset, n, [&](ByteView piece) {
      const auto found = piece.find_first_not_of('\0');
      at += static_cast<uint32_t>(found == ByteView::npos ? piece.size() : found);
      return found == ByteView::npos;
    });
    return at;
  }

  /// The pieces that hold n bytes, in order; returns how many. `out` needs room for
  /// n / kSegletBytes + 2 of them.
  int slices(uint32_t offset, uint32_t n, Slice out[]) const {
    int count = 0;
    for_each_piece(offset, n, [&](ByteView piece) {
      out[count++] = Slice(piece);
      return true;
    });
    return count;
  }

  /// Calls f(piece) in order until it returns false.
  template <typename F>
  void for_each_piece(uint32_t offset, uint32_t n, F&& f) const {
    while (n > 0) {
      const ByteView p = piece(offset, n);
      if (!f(p)) return;
      offset += static_cast<uint32_t>(p.size());
      n -= static_cast<uint32_t>(p.size());
    }
  }

 private:
  const char* base_ = nullptr;
  const char* const* seglets_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace ramcloud::log
