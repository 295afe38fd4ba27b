// Bodies of the data operations: packed structs, followed by key and value bytes as said at each.
// See docs/formats.md ("Wire"). A reply whose status is not OK has an ErrorBody instead.
#pragma once

#include <cstdint>
#include <string>

namespace ramcloud::wire {

/// Body of a reply whose status is not OK; followed by message_length bytes of UTF-8 text, and
/// then, optionally and to peers that speak version 2, by the ErrorDetails as an extensible struct.
struct __attribute__((packed)) ErrorBody {
  uint32_t retry_after_us;  // with RETRY: how long to wait; otherwise 0
  uint16_t message_length;
};
static_assert(sizeof(ErrorBody) == 6);

/// What a program does about an error, where the text is for people. In version 2 of
/// codec.h's encoding; former versions send no details at all.
struct ErrorDetails {
  enum Flag : uint64_t {
    /// The request left nothing behind, and will not: neither in memory nor on a device is there
    /// anything by which it could be taken for done. The sender may act as if it had not sent it.
    kNothingWritten = 1,
  };
  uint64_t flags = 0;
  // Of the leading coordinator, where another one answers: inside the cluster, and from outside.
  std::string leader;
  std::string leader_outside;
  uint64_t term = 0;            // of the leadership that the error speaks of; 0: of none
  uint32_t retry_after_us = 0;  // when to ask again, whatever the status; 0: nothing is said

  template <class V>
  void fields(V& v) {
    v.since(2, flags, leader, leader_outside, term, retry_after_us);
  }
  bool operator==(const ErrorDetails&) const = default;
};

/// When a data operation shall fail instead of taking effect [Ousterhout15 §3.1].
struct __attribute__((packed)) RejectRules {
  enum Flag : uint32_t {
    kIfAbsent = 1,           // fails with NOT_FOUND
    kIfExists = 2,           // fails with EXISTS
    kIfVersionNotEqual = 4,  // fails with WRONG_VERSION (also when absent)
    kIfVersionAtMost = 8,    // version <= given fails with WRONG_VERSION
  };
  uint32_t flags;
  uint32_t reserved;  // 0
  uint64_t version;
};
static_assert(sizeof(RejectRules) == 16);
inline constexpr uint32_t kAllRejectFlags = RejectRules::kIfAbsent | RejectRules::kIfExists |
                                            RejectRules::kIfVersionNotEqual |
                                            RejectRules::kIfVersionAtMost;

/// kRead; followed by the key.
struct __attribute__((packed)) ReadRequest {
  uint64_t table_id;
  RejectRules reject;
  uint16_t key_length;
  uint8_t reserved[6];
};
static_assert(sizeof(ReadRequest) == 32);

/// Followed by the value.
struct __attribute__((packed)) ReadReply {
  uint64_t version;
  uint32_t value_length;
  uint32_t reserved;
};
static_assert(sizeof(ReadReply) == 16);

/// kWrite; followed by the key, then the value.
struct __attribute__((packed)) WriteRequest {
  uint64_t table_id;
  RejectRules reject;
  uint32_t value_length;
  uint16_t key_length;
  uint16_t reserved;
};
static_assert(sizeof(WriteRequest) == 32);

struct __attribute__((packed)) WriteReply {
  uint64_t version;  // of the new object
};
static_assert(sizeof(WriteReply) == 8);

/// kDelete; followed by the key.
struct __attribute__((packed)) DeleteRequest {
  uint64_t table_id;
  RejectRules reject;
  uint16_t key_length;
  uint8_t reserved[6];
};
static_assert(sizeof(DeleteRequest) == 32);

struct __attribute__((packed)) DeleteReply {
  uint64_t version;  // of the object that was deleted; 0 when there was none
};
static_assert(sizeof(DeleteReply) == 8);

/// How the 8 bytes of a counter are read: both little-endian.
enum class NumberType : uint8_t {
  kInt64 = 1,   // two's complement; wraps round at its ends
  kDouble = 2,  // IEEE 754 binary64
};

/// kIncrement: adds to the number that an object holds; an absent object counts as 0 and is
/// created. Followed by the key. A value that is not 8 bytes long fails with INVALID_ARGUMENT.
struct __attribute__((packed)) IncrementRequest {
  uint64_t table_id;
  RejectRules reject;
  uint64_t delta;  // the bits of an int64 or a double
  uint16_t key_length;
  NumberType type;
  uint8_t reserved[5];
};
static_assert(sizeof(IncrementRequest) == 40);

struct __attribute__((packed)) IncrementReply {
  uint64_t version;  // of the new object
  uint64_t value;    // the sum: the bits of an int64 or a double
};
static_assert(sizeof(IncrementReply) == 16);

/// kMultiRead, kMultiWrite, kMultiDelete: many single operations in one message, done in their
/// order, each on its own (nothing is atomic across them). Followed by `count` times what the body
/// of the single operation would be: {ReadRequest, key}, {WriteRequest, key, value} or
/// {DeleteRequest, key}.
struct __attribute__((packed)) MultiRequest {
  uint32_t count;      // 1 to kMaxMultiCount
  uint32_t max_bytes;  // of the reply's body; one operation is answered even if that is more
};
static_assert(sizeof(MultiRequest) == 8);

/// Answers the first `count` operations of the request; those behind them were not executed (the
/// reply was full, the log not ready, or the caller's time over) and are to be sent again, after
/// retry_after_us. Followed by `count` times {MultiResult, value}.
struct __attribute__((packed)) MultiReply {
  uint32_t count;
  uint32_t retry_after_us;
};
static_assert(sizeof(MultiReply) == 8);

/// The outcome of one operation, whose value (of a read that is OK) follows.
struct __attribute__((packed)) MultiResult {
  uint16_t status;  // StatusCode
  uint16_t reserved;
  uint32_t value_length;  // 0 but for a read that is OK
  uint64_t version;       // as the single operation answers it; 0 unless OK
};
static_assert(sizeof(MultiResult) == 16);

inline constexpr uint32_t kMaxMultiCount = 16'384;

/// kEnumerate: a page of the objects of the tablet that holds start_hash. The first call passes
/// cursor 0; later ones what the reply gave. An object that stays throughout appears exactly once,
/// also when the tablet moves or is split (docs/design/wire.md, "Scans").
struct __attribute__((packed)) EnumerateRequest {
  uint64_t table_id;
  uint64_t start_hash;  // any hash in the tablet
  uint64_t cursor;
  uint32_t max_bytes;  // of the reply's body; at least one object is given even if larger
  uint32_t flags;      // bit 0: keys and versions only, values left out
};
static_assert(sizeof(EnumerateRequest) == 32);

/// Followed by `count` times {EnumeratedObject, key, value}.
struct __attribute__((packed)) EnumerateReply {
  uint64_t next_cursor;  // meaningless when done
  uint64_t tablet_end;   // inclusive end hash of the tablet that was read
  uint32_t count;
  uint8_t done;  // 1: the tablet has no more
  /// 1: next_cursor is a place in the order of hashes, and means the same on every server. 0: a
  /// former server's, which means nothing elsewhere.
  uint8_t cursor_is_place;
  uint8_t reserved[2];
};
static_assert(sizeof(EnumerateReply) == 24);

struct __attribute__((packed)) EnumeratedObject {
  uint64_t version;
  uint32_t value_length;
  uint16_t key_length;
  uint16_t reserved;
};
static_assert(sizeof(EnumeratedObject) == 16);

}  // namespace ramcloud::wire
