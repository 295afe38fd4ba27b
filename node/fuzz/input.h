// Splits a fuzzer's input into values; after its end everything is zero or empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ramcloud::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return rest_.empty(); }
  uint8_t u8() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  uint16_t u16() {
    const uint8_t low = u8();
    return static_cast<uint16_t>(low | u8() << 8);
  }
  /// At most n bytes.
  std::string_view take(size_t n) {
    const std::string_view bytes = rest_.substr(0, n);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  /// The bytes up to the next `end`, which is skipped.
  std::string_view take_until(char end) {
    const std::string_view bytes = rest_.substr(0, rest_.find(end));
    rest_.remove_prefix(std::min(rest_.size(), bytes.size() + 1));
    return bytes;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace ramcloud::fuzz
