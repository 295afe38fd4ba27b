// Numbers of any width in a string of bytes, the lowest bit first.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace ramcloud::wire {

class BitWriter {
 public:
  /// Appends to `out`, which outlives it.
  explicit BitWriter(std::string& out) : out_(out) {}
  /// At most 32 bits.
  void put(uint64_t value, uint32_t bits) {
    held_ |= value << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8) {
      out_.push_back(static_cast<char>(held_));
    }
  }
  /// Small numbers take few bits: w ones and a zero, then the w lowest bits of value + 1, which has
  /// one bit more. Precondition: below 2^64 - 1.
  void put_small(uint64_t value) {
    const int width = std::bit_width(value + 1) - 1;
    for (int i = 0; i < width; ++i) put(1, 1);
    put(0, 1);
    for (int i = 0; i < width; ++i) put((value + 1) >> i & 1, 1);
  }
  /// Zeros fill the last byte.
  void end() {
    if (count_ > 0) put(0, 8 - count_);
  }

 private:
  std::string& out_;
  uint64_t held_ = 0;
  uint32_t count_ = 0;  // bits in held_, below 8
};

class BitReader {
 public:
  explicit BitReader(std::string_view in) : in_(in) {}
  /// At most 32 bits. False: there are not as many.
  bool take(uint64_t& value, uint32_t bits) {
    for (; count_ < bits; count_ += 8) {
      if (in_.empty()) return false;
      held_ |= uint64_t{static_cast<uint8_t>(in_.front())} << count_;
      in_.remove_prefix(1);
    }
    value = held_ & ((uint64_t{1} << bits) - 1);
    held_ >>= bits;
    count_ -= bits;
    return true;
  }
  bool take_small(uint64_t& value) {
    uint32_t width = 0;
    uint64_t bit = 1;
    while (take(bit, 1) && bit == 1) ++width;
    if (bit == 1 || width >= 64) return false;
    value = uint64_t{1} << width;
    for (uint32_t i = 0; i < width; ++i) {
      if (!take(bit, 1)) return false;
      value |= bit << i;
    }
    --value;
    return true;
  }
  uint64_t bits_left() const { return in_.size() * 8 + count_; }
  /// Only the rest of the last byte is left, and it is zero.
  bool at_end() const { return in_.empty() && held_ == 0; }

 private:
  std::string_view in_;
  uint64_t held_ = 0;
  uint32_t count_ = 0;  // bits in held_
};

}  // namespace ramcloud::wire
