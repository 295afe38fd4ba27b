// Views of bytes and pieces of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace ramcloud {

/// Bytes that are not owned; string_view, because keys and values often are text.
using ByteView = std::string_view;

/// One piece of a scatter list. Its bytes must not change until the call that gets the list has
/// returned (some interfaces require more).
struct Slice {
  const void* data = nullptr;
  size_t size = 0;
  Slice() = default;
  Slice(const void* d, size_t n) : data(d), size(n) {}
  explicit Slice(ByteView v) : data(v.data()), size(v.size()) {}
};

/// Copies a packed struct out of bytes. Precondition: there are enough bytes.
template <typename T>
  requires std::is_trivially_copyable_v<T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The bytes of a trivially copyable value.
template <typename T>
  requires std::is_trivially_copyable_v<T>
ByteView bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline constexpr uint64_t align_up(uint64_t n, uint64_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace ramcloud
