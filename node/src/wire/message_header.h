// The one header of every message, and the opcodes. All integers are little-endian and packed.
// See docs/formats.md ("Wire"). Golden bytes: src/wire/golden/*.json, shared with the Go client.
#pragma once

#include <cstdint>

namespace ramcloud::wire {

/// Protocol versions that this program supports. A hello without a common version is refused. From
/// version 2 on control messages can be extended (codec.h); from version 3 on the order to recover
/// packs its segments (packed_segments.h).
inline constexpr uint16_t kVersionMin = 1;
inline constexpr uint16_t kVersionMax = 3;

/// Terms and revisions above this are refused everywhere, so that both can still rise.
inline constexpr uint64_t kMaxTerm = uint64_t{1} << 62;

/// Limits of the data model (docs/design/wire.md#limits): exact, and checked at every entry point.
inline constexpr uint32_t kMaxKeyBytes = 65'535;
inline constexpr uint32_t kMaxValueBytes = 1'048'576;
inline constexpr uint32_t kMaxTableNameBytes = 255;

/// Largest body a peer may send: a full value with its key and headers, or a control message. A
/// longer length closes the connection before anything is allocated for it.
inline constexpr uint32_t kMaxBodyBytes = 4u << 20;

enum class Kind : uint8_t { kRequest = 1, kReply = 2 };

/// Operation codes. Values are part of the protocol: never change or reuse one.
enum class Opcode : uint16_t {
  kInvalid = 0,
  kPing = 1,
  // Master: data. One range, to which master/reply.h refers (is_data_opcode): an operation outside
  // it is answered without a lease.
  kRead = 16,
  kWrite = 17,
  kDelete = 18,
  kEnumerate = 19,
  kIncrement = 20,
  kMultiRead = 21,
  kMultiWrite = 22,
  kMultiDelete = 23,
  // Coordinator, for clients.
  kGetClusterInfo = 64,
  kCreateTable = 65,
  kDropTable = 66,
  kListTables = 67,
  kGetTable = 68,
  // Coordinator, for servers.
  kEnlist = 80,
  kGetServerList = 81,
  kRaiseReplicationEpoch = 88,
  kReportServer = 92,
  kGrantLease = 93,
  kGetRecovered = 94,
  kStopServing = 95,
  // Servers, for the coordinator.
  kUpdateServerList = 96,
  kTakeTablet = 97,
  kDropTablet = 98,
  kGetServerStats = 99,
  kRestate = 100,
  kProbePeer = 108,
  kGetReplicasOn = 109,
  kResizeLog = 110,
  kRecoveryQuery = 112,
  kRecover = 113,
  kGetRecoveryState = 114,
  kServeRecovered = 115,
  kAbortRecovery = 116,
  // Backup, for masters.
  kReplicaOpen = 128,
  kReplicaWrite = 129,
  kReplicaFree = 130,
  // Backup, for recovery masters.
  kRecoveryFetch = 132,
  // Backup, for masters.
  kRenewLease = 133,
  kSyncReplicas = 134,
  // Master, for backups.
  kGetUnneeded = 135,
  // Backup, for masters.
  kReplicaAdopt = 136,
};

/// Every message of a coordinator to a server, in all versions, begins with the coordinator's term.
/// The server accepts a higher term only after confirmation (rpc/term_gate.h).
inline constexpr Opcode kFirstOfCoordinator = Opcode{96};
inline constexpr Opcode kLastOfCoordinator = Opcode{127};

/// Requests that are sent at intervals to learn whether the other side is alive. Nothing else follows
/// their answers soon.
constexpr bool is_heartbeat(uint16_t opcode) {
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::kPing:
    case Opcode::kGrantLease:
    case Opcode::kGetServerStats:
    case Opcode::kRenewLease:
      return true;
    default:
      return false;
  }
}

/// First bytes each side sends on a new connection; the server's answer is its reply. 64 bytes.
struct Hello {
  char magic[8];         // "RAMCLOUD"
  uint16_t version_min;  // answer: both are the chosen version
  uint16_t version_max;
  uint16_t status;           // answer: StatusCode; a refusal is followed by a close
  uint16_t reserved0;        // 0
  uint32_t flags;            // 0
  uint32_t max_body_bytes;   // largest body this side accepts
  uint8_t cluster_uuid[16];  // asked: all zero means "any"; answer: the server's own
  uint64_t server_id;        // asked: 0 means "any"; answer: the server's own (0: not enlisted yet)
  uint64_t reserved1[2];     // 0
};
static_assert(sizeof(Hello) == 64);

/// Before every message body, in both directions. 48 bytes.
/// client_id, rpc_id and first_incomplete are reserved for exactly-once calls (0 until they exist).
struct MessageHeader {
  uint32_t body_length;  // bytes after this header
  Kind kind;
  uint8_t flags;        // 0
  uint16_t opcode;      // reply: the request's
  uint16_t status;      // reply: StatusCode, 0 is OK; request: 0
  uint16_t reserved;    // 0
  uint32_t timeout_ms;  // request: time the caller will still wait, 0 = for ever; reply: 0
  uint64_t call_id;     // chosen by the caller, unique among its unanswered calls on a connection
  uint64_t client_id;
  uint64_t rpc_id;
  uint64_t first_incomplete;
};
static_assert(sizeof(MessageHeader) == 48);

}  // namespace ramcloud::wire
