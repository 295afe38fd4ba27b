// The answer to a data operation, until it leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "log/entry_view.h"
#include "log/log.h"
#include "transport/transport.h"
#include "wire/message_header.h"

namespace ramcloud::master {

/// True for requests that any reactor of a server can serve.
inline bool is_data_opcode(uint16_t opcode) {
  return opcode >= static_cast<uint16_t>(wire::Opcode::kRead) &&
         opcode <= static_cast<uint16_t>(wire::Opcode::kMultiDelete);
}

/// A reply in pieces: a fixed part, then either bytes of a log entry (sent without a copy) or bytes
/// that it owns.
struct Reply {
  static constexpr size_t kMaxFixedBytes = 24;
  ReplyHandle handle;
  StatusCode status = StatusCode::kOk;
  log::LogPosition depends_on;
  /// The reply says nothing except what this operation appended.
  bool appended = false;
  uint8_t fixed_size = 0;
  char fixed[kMaxFixedBytes];
  log::EntryView entry;  // entry_size bytes from entry_offset of its body
  log::Pin pin;          // pins the entry while the reply is held
  uint32_t entry_offset = 0;
  uint32_t entry_size = 0;
  std::string owned;  // pages, results of multi-operations; empty for single objects
  Time held_since{};

  template <typename T>
  void set_fixed(const T& value) {
    static_assert(sizeof(T) <= kMaxFixedBytes);
    std::memcpy(fixed, &value, sizeof value);
    fixed_size = sizeof value;
  }
};

/// True if the reply tells data from memory. That would be stale if another server owned the tablet
/// by now, so the reply needs a lease (docs/design/recovery.md#leases). `appends_prove`: see
/// LeaseTerm.
inline bool tells_from_memory(const Reply& reply, bool appends_prove) {
  if (!is_data_opcode(reply.handle.opcode)) return false;  // a request of the coordinator
  // Nothing was done, and the reply tells nothing.
  if (reply.status == StatusCode::kRetry || reply.status == StatusCode::kUnknownTablet)
    return false;
  return !(reply.appended && appends_prove);
}

}  // namespace ramcloud::master
