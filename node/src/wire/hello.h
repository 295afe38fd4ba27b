// The first bytes of a connection: the expected server, the answering server, and the reason of a
// refusal (docs/formats.md#wire). Used by both sides of every transport.
#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "wire/message_header.h"

namespace ramcloud::wire {

/// The hello of a client. Zero uuid or id: any.
Hello make_hello(const std::array<uint8_t, 16>& cluster_uuid, uint64_t server_id);

/// False if the bytes are not a hello: then the connection is closed without an answer.
bool is_hello(const Hello& hello);

/// The answer of a server with this identity. A status other than OK refuses: UNSUPPORTED (no
/// common version, or unknown flags), WRONG_CLUSTER or WRONG_SERVER. The answer always has the
/// server's own identity.
Hello answer_hello(const Hello& asked, const std::array<uint8_t, 16>& own_cluster_uuid,
                   uint64_t own_server_id);

/// Checks the answer at the client: OK, the refusal, or PROTOCOL_ERROR if it is malformed, or
/// accepts although it is not the expected server.
Status check_answer(const Hello& asked, const Hello& answer);

/// True if a peer may send this header: the right kind, no unknown flags, and a length within
/// kMaxBodyBytes. Anything else closes the connection.
inline bool is_valid_header(const MessageHeader& header, Kind kind) {
  return header.kind == kind && header.flags == 0 && header.body_length <= kMaxBodyBytes;
}

}  // namespace ramcloud::wire
