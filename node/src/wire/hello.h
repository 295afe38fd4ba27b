// The first bytes of a connection: the server that the client expects, the server that answers, and
// the reason of a refusal (docs/formats.md, "Wire"). The rules of both sides, for every transport.
#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "wire/message_header.h"

namespace ramcloud::wire {

/// What a client sends. Zero uuid or id: any.
Hello make_hello(const std::array<uint8_t, 16>& cluster_uuid, uint64_t server_id);

/// False if these bytes are no hello at all: the connection is closed without an answer.
bool is_hello(const Hello& hello);

/// What a server with this identity answers. A status in it other than OK refuses: UNSUPPORTED (no
/// common version, or flags we do not know), WRONG_CLUSTER or WRONG_SERVER; the answer carries the
/// server's own identity in any case.
Hello answer_hello(const Hello& asked, const std::array<uint8_t, 16>& own_cluster_uuid,
                   uint64_t own_server_id);

/// What a client makes of the answer: OK, the refusal, or PROTOCOL_ERROR if it is malformed or
/// accepts although it is not the server that was asked for.
Status check_answer(const Hello& asked, const Hello& answer);

/// True if a peer may send this header: the right kind, no unknown flags, and a length within
/// kMaxBodyBytes. Anything else closes the connection.
inline bool is_valid_header(const MessageHeader& header, Kind kind) {
  return header.kind == kind && header.flags == 0 && header.body_length <= kMaxBodyBytes;
}

}  // namespace ramcloud::wire
