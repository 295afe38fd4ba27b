// For tests of encodings: messages in which every field has a different value, and bytes as text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "wire/codec.h"

namespace ramcloud::wire::testing {

inline std::string to_hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<uint8_t>(c) >> 4];
    text += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return text;
}

/// Gives every field of a message a different value.
class Filler {
 public:
  template <typename... Ts>
  void operator()(Ts&... values) {
    (fill(values), ...);
  }
  /// Fields that were added later do not change the values of the others.
  template <typename... Ts>
  void since(uint16_t version, Ts&... values) {
    uint64_t added = 0x80 + next_added_;
    if (version > kExtensible) std::swap(next_, added);
    (fill(values), ...);
    if (version > kExtensible) {
      std::swap(next_, added);
      next_added_ = added - 0x80;
    }
  }
  void unknown(const std::string&) {}

 private:
  template <Scalar T>
  void fill(T& value) {
    ++next_;
    if constexpr (std::is_same_v<T, bool>) {
      value = true;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(2);
    } else {
      value = static_cast<T>(next_ * 0x0101010101010101ull);
    }
  }
  void fill(std::string& value) { value = "text " + std::to_string(++next_); }
  void fill(std::array<uint8_t, 16>& uuid) { uuid.fill(static_cast<uint8_t>(++next_)); }
  template <typename T>
  void fill(std::vector<T>& list) {
    list.resize(2);
    for (auto& element : list) fill(element);
  }
  template <typename T>
    requires requires(T& t, Filler& f) { t.fields(f); }
  void fill(T& message) {
    message.fields(*this);
  }
  uint64_t next_ = 0;
  uint64_t next_added_ = 0;
};

template <typename Message>
Message filled() {
  Filler filler;
  Message message;
  message.fields(filler);
  return message;
}

}  // namespace ramcloud::wire::testing
