// Bodies of the data operations: packed structs, followed by key and value bytes as said at each.
// See docs/formats.md ("Wire"). A reply whose status is not OK has an ErrorBody instead.
#pragma once

#include <cstdint>

namespace ramcloud::wire {

/// Body of a reply whose status is not OK; followed by message_length bytes of UTF-8 text.
struct __attribute__((packed)) ErrorBody {
  uint32_t retry_after_us;  // with RETRY: how long to wait; otherwise 0
  uint16_t message_length;
};
static_assert(sizeof(ErrorBody) == 6);

/// When a data operation shall fail instead of taking effect (paper §3.1, conditional operations).
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

/// kEnumerate: a page of the objects of the tablet that holds start_hash. The first call passes
/// cursor 0; later ones what the reply gave. An object that stays throughout appears exactly once.
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
  uint8_t reserved[3];
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
