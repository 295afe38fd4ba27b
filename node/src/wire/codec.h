// Encoding of control messages: integers little-endian, bool one byte, strings and byte strings
// with a 32-bit length, lists with a 32-bit count, a UUID as 16 bytes, nothing else. A message
// lists its fields once, in `template <class V> void fields(V& v) { v(a, b, c); }`, and both
// directions follow.
//
// Two versions (docs/design/wire.md, "Extensible structs"). Version 1 is the fields and nothing
// else. Version 2 puts the length of each struct (the message, a nested one, an element of a list)
// in front of it, as 32 bits. A field that was added later follows the others:
//
//   v(a, b);            // of version 1: must be there
//   v.since(2, c, d);   // added later: left out in version 1; an older peer may not send it, then
//                       // it keeps its default
//   v.unknown(rest);    // optional, last: keeps what a newer writer added, for writing the struct
//                       // again; without it such bytes are skipped
//
// Decoding never trusts a length. A field that does not fit into the bytes fails, and a list's
// count is bounded by the bytes left (every element takes at least one).
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

/// The first version of the encoding whose structs have a length.
inline constexpr uint16_t kExtensible = 2;

class Encoder {
 public:
  Encoder(std::string& out, uint16_t version) : out_(out), version_(version) {}
  template <typename... Ts>
  void operator()(Ts&... values) {
    (put(values), ...);
  }
  template <typename... Ts>
  void since(uint16_t version, Ts&... values) {
    if (version_ >= version) (put(values), ...);
  }
  void unknown(const std::string& rest) {
    if (version_ >= kExtensible) out_.append(rest);
  }
  template <typename T>
    requires requires(T& t, Encoder& e) { t.fields(e); }
  void put(T& message) {
    if (version_ < kExtensible) return message.fields(*this);
    const size_t at = out_.size();
    out_.append(sizeof(uint32_t), '\0');
    message.fields(*this);
    const auto length = static_cast<uint32_t>(out_.size() - at - sizeof(uint32_t));
    std::memcpy(out_.data() + at, &length, sizeof length);
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
  std::string& out_;
  uint16_t version_;
};

class Decoder {
 public:
  Decoder(std::string_view in, uint16_t version) : in_(in), version_(version) {}
  template <typename... Ts>
  void operator()(Ts&... values) {
    (get(values), ...);
  }
  template <typename... Ts>
  void since(uint16_t version, Ts&... values) {
    if (version_ >= version) (get_if_there(values), ...);
  }
  void unknown(std::string& rest) {
    if (version_ < kExtensible || !ok_) return;
    rest.assign(in_);
    in_ = {};
  }
  template <typename T>
    requires requires(T& t, Decoder& d) { t.fields(d); }
  void get(T& message) {
    if (version_ < kExtensible) return message.fields(*this);
    uint32_t length = 0;
    get(length);
    if (!has(length)) return;
    const std::string_view behind = in_.substr(length);
    in_ = in_.substr(0, length);
    message.fields(*this);
    in_ = behind;
  }
  /// False if any field did not fit; fields decoded after it are unspecified.
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
  /// Every field takes at least one byte, so a field is absent if no bytes are left.
  template <typename T>
  void get_if_there(T& value) {
    if (!in_.empty()) get(value);
  }
  bool has(size_t bytes) {
    ok_ = ok_ && bytes <= in_.size();
    return ok_;
  }
  std::string_view in_;
  uint16_t version_;
  bool ok_ = true;
};

/// Appends the message's bytes to `out`. `version`: of the encoding; use that of the connection
/// (Session::version(), ReplyHandle::version).
template <typename T>
void encode(const T& message, uint16_t version, std::string& out) {
  Encoder encoder(out, version);
  encoder.put(const_cast<T&>(message));  // fields() is used in both directions; encoding only reads
}

template <typename T>
std::string encode(const T& message, uint16_t version) {
  std::string out;
  encode(message, version, out);
  return out;
}

/// True when `in` is exactly one message: every field fits and no byte is left over.
template <typename T>
[[nodiscard]] bool decode(std::string_view in, uint16_t version, T& message) {
  Decoder decoder(in, version);
  decoder.get(message);
  return decoder.ok() && decoder.at_end();
}

}  // namespace ramcloud::wire
