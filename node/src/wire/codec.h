// Encoding of control messages: integers little-endian, bool one byte, strings and byte strings
// with a 32-bit length, lists with a 32-bit count, a UUID as 16 bytes, nothing else. A message
// lists its fields once, in `template <class V> void fields(V& v) { v(a, b, c); }`, and both
// directions follow.
//
// Decoding never trusts a length: what does not fit into the bytes that are there fails, and a
// list's count is bounded by the bytes left (every element takes at least one).
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ramcloud::wire {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "formats are little-endian, unconverted");

template <typename T>
concept Scalar = std::integral<T> || std::is_enum_v<T>;

class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}
  template <typename... Ts>
  void operator()(Ts&... values) {
    (put(values), ...);
  }

 private:
  template <Scalar T>
  void put(const T& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& value) {
    const auto length = static_cast<uint32_t>(value.size());
    put(length);
    out_.append(value);
  }
  void put(const std::array<uint8_t, 16>& uuid) {
    out_.append(reinterpret_cast<const char*>(uuid.data()), uuid.size());
  }
  template <typename T>
  void put(std::vector<T>& list) {
    const auto count = static_cast<uint32_t>(list.size());
    put(count);
    for (auto& element : list) put(element);
  }
  template <typename T>
    requires requires(T& t, Encoder& e) { t.fields(e); }
  void put(T& message) {
    message.fields(*this);
  }
  std::string& out_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view in) : in_(in) {}
  template <typename... Ts>
  void operator()(Ts&... values) {
    (get(values), ...);
  }
  /// False once any field did not fit; what was decoded since is unspecified.
  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }

 private:
  template <Scalar T>
  void get(T& value) {
    if (!has(sizeof value)) return;
    if constexpr (std::is_same_v<T, bool>) {
      value = in_[0] != 0;
    } else {
      std::memcpy(&value, in_.data(), sizeof value);
    }
    in_.remove_prefix(sizeof value);
  }
  void get(std::string& value) {
    uint32_t length = 0;
    get(length);
    if (!has(length)) return;
    value.assign(in_.data(), length);
    in_.remove_prefix(length);
  }
  void get(std::array<uint8_t, 16>& uuid) {
    if (!has(uuid.size())) return;
    std::memcpy(uuid.data(), in_.data(), uuid.size());
    in_.remove_prefix(uuid.size());
  }
  template <typename T>
  void get(std::vector<T>& list) {
    uint32_t count = 0;
    get(count);
    if (!has(count)) return;
    list.clear();
    for (uint32_t i = 0; i < count && ok_; ++i) get(list.emplace_back());
  }
  template <typename T>
    requires requires(T& t, Decoder& d) { t.fields(d); }
  void get(T& message) {
    message.fields(*this);
  }
  bool has(size_t bytes) {
    ok_ = ok_ && bytes <= in_.size();
    return ok_;
  }
  std::string_view in_;
  bool ok_ = true;
};

/// Appends the message's bytes to `out`.
template <typename T>
void encode(const T& message, std::string& out) {
  Encoder encoder(out);
  const_cast<T&>(message).fields(encoder);  // fields() serves both directions; encoding only reads
}

template <typename T>
std::string encode(const T& message) {
  std::string out;
  encode(message, out);
  return out;
}

/// True when `in` is exactly one message: every field fits and no byte is left over.
template <typename T>
[[nodiscard]] bool decode(std::string_view in, T& message) {
  Decoder decoder(in);
  message.fields(decoder);
  return decoder.ok() && decoder.at_end();
}

}  // namespace ramcloud::wire
