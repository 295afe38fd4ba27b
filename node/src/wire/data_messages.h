// Bodies of the data operations: packed structs, followed by key and value bytes as each comment
// says. See docs/formats.md ("Wire"). A reply whose status is not OK has an ErrorBody instead.
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

/// The details of an error for programs; the text is for people. In version 2 of codec.h's
/// encoding; version 1 sends no details.
struct ErrorDetails {
  enum Flag : uint64_t {
    /// The request had no effect and will have none, neither in memory nor on a device. The sender
    /// may act as if it had not sent it.
    kNothingWritten = 1,
  };
  uint64_t flags = 0;
  // Addresses of the leader, if another coordinator answers: inside the cluster, and from outside.
  std::string leader;
  std::string leader_outside;
  uint64_t term = 0;            // term of the leader that the error is about; 0: none
  uint32_t retry_after_us = 0;  // when to retry, for any status; 0: not told

  template <class V>
  void fields(V& v) {
    v.since(2, flags, leader, leader_outside, term, retry_after_us);
  }
  bool operator==(const ErrorDetails&) const = default;
};

/// Conditions under which a data operation fails instead of taking effect [Ousterhout15 §3.1].
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

/// kMultiRead, kMultiWrite, kMultiDelete: many single operations in one message, executed in order
/// and independently (they are not atomic together). Followed by `count` times the body of the
/// single operation: {ReadRequest, key}, {WriteRequest, key, value} or {DeleteRequest, key}.
struct __attribute__((packed)) MultiRequest {
  uint32_t count;      // 1 to kMaxMultiCount
  uint32_t max_bytes;  // of the reply's body; one operation is always answered
};
static_assert(sizeof(MultiRequest) == 8);

/// Answers the first `count` operations of the request. The others were not executed (the reply was
/// full, the log not ready, or the deadline passed), and must be sent again after retry_after_us.
/// Followed by `count` times {MultiResult, value}.
struct __attribute__((packed)) MultiReply {
  uint32_t count;
  uint32_t retry_after_us;
};
static_assert(sizeof(MultiReply) == 8);

/// The outcome of one operation, whose value (of a read that is OK) follows.
struct __attribute__((packed)) MultiResult {
  uint16_t status;  // StatusCode
  uint16_t reserved;
  uint32_t value_length;  // 0, except for a read that is OK
  uint64_t version;       // as in the single operation's reply; 0 unless OK
};
static_assert(sizeof(MultiResult) == 16);

inline constexpr uint32_t kMaxMultiCount = 16'384;

/// kEnumerate: a page of the objects of the tablet that holds start_hash. The first call passes
/// cursor 0; later calls pass next_cursor. An object that exists during the whole scan is returned
/// exactly once, even if the tablet moves or is split (docs/design/wire.md#scans).
///
/// With kSplitsHashes a page may end between objects with the same hash. The next request then has
/// the last object's key after its fixed part.
struct __attribute__((packed)) EnumerateRequest {
  static constexpr uint16_t kKeysOnly = 1;      // values are left out
  static constexpr uint16_t kSplitsHashes = 2;  // servers of earlier versions ignore it

  uint64_t table_id;
  uint64_t start_hash;  // any hash in the tablet
  uint64_t cursor;
  uint32_t max_bytes;  // of the reply's body; at least one object is returned
  uint16_t flags;
  uint16_t after_key_length;
};
static_assert(sizeof(EnumerateRequest) == 32);

/// Followed by `count` times {EnumeratedObject, key, value}.
struct __attribute__((packed)) EnumerateReply {
  uint64_t next_cursor;  // meaningless when done
  uint64_t tablet_end;   // inclusive end hash of the tablet that was read
  uint32_t count;
  uint8_t done;  // 1: the tablet has no more
  /// 1: next_cursor is a place in the order of hashes, which is valid on every server. 0: the
  /// cursor of a server of an earlier version, valid only there.
  uint8_t cursor_is_place;
  /// 1: next_cursor is the place of the last object, and more objects with its hash follow. Only
  /// for requests with kSplitsHashes.
  uint8_t within_hash;
  uint8_t reserved;
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
