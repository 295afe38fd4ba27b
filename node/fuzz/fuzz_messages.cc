// Input from connections: hellos, headers, and each control message (chosen by the first byte). If
// a message decodes, it must decode to the same message after encoding.
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "wire/codec.h"
#include "wire/control_messages.h"
#include "wire/hello.h"
#include "wire/message_header.h"
#include "wire/packed_segments.h"
#include "wire/recovery_messages.h"
#include "wire/replica_messages.h"
#include "wire/volume_messages.h"

using namespace ramcloud;
using namespace ramcloud::wire;

namespace {

template <typename T>
void check(std::string_view in) {
  for (uint16_t version = kVersionMin; version <= kVersionMax; ++version) {
    T message;
    if (!decode(in, version, message)) continue;
    const std::string again = encode(message, version);
    T same;
    // The bytes may differ from the input: a bool may be any byte, and versions 2 and 3 skip
    // unknown fields.
    if (version == 1 && again.size() != in.size()) std::abort();
    if (!decode(again, version, same) || encode(same, version) != again) std::abort();
  }
}

void check_packed(std::string_view in) {
  std::vector<RecoverySegment> segments, again;
  if (!unpack_segments(in, segments)) return;
  if (!unpack_segments(pack_segments(segments), again) || segments != again) std::abort();
}

using Check = void (*)(std::string_view);
constexpr Check kChecks[] = {check<Empty>,
                             check<ClusterInfo>,
                             check<TabletInfo>,
                             check<TableInfo>,
                             check<CreateTableRequest>,
                             check<DropTableRequest>,
                             check<GetTableRequest>,
                             check<ListTablesReply>,
                             check<ServerListEntry>,
                             check<ServerList>,
                             check<EnlistRequest>,
                             check<EnlistReply>,
                             check<TakeTabletRequest>,
                             check<DropTabletRequest>,
                             check<GetServerStatsRequest>,
                             check<ServerStats>,
                             check<RaiseReplicationEpochRequest>,
                             check<ReplicaExtension>,
                             check<RecoveryQueryRequest>,
                             check<RecoveryQueryReply>,
                             check<RecoveryFetchRequest>,
                             check<RecoverRequest>,
                             check<RecoveryState>,
                             check<GetRecoveryStateRequest>,
                             check<ServeRecoveredRequest>,
                             check<AbortRecoveryRequest>,
                             check<RenewLeaseRequest>,
                             check<SyncReplicasRequest>,
                             check<GrantLeaseRequest>,
                             check<GetRecoveredRequest>,
                             check<Recovered>,
                             check<GetUnneededRequest>,
                             check<Unneeded>,
                             check<AdoptRequest>,
                             check<Adopted>,
                             check_packed};

void check_hello(std::string_view in) {
  Hello hello;
  if (in.size() < sizeof hello) return;
  std::memcpy(&hello, in.data(), sizeof hello);
  if (!is_hello(hello)) return;
  std::array<uint8_t, 16> uuid{};
  uuid[0] = 1;
  const Hello answer = answer_hello(hello, uuid, 7);
  if (!is_hello(answer)) std::abort();
  (void)check_answer(make_hello(uuid, 7), hello);
  // A client must read an accepting answer as accepting, and a refusal as a refusal.
  if (answer.status == 0 && !check_answer(hello, answer).ok()) std::abort();
  if (answer.status != 0 && check_answer(hello, answer).ok()) std::abort();
}

void check_header(std::string_view in) {
  MessageHeader header;
  if (in.size() < sizeof header) return;
  std::memcpy(&header, in.data(), sizeof header);
  for (const Kind kind : {Kind::kRequest, Kind::kReply}) {
    if (is_valid_header(header, kind) && header.body_length > kMaxBodyBytes) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view in(reinterpret_cast<const char*>(data) + 1, size - 1);
  kChecks[data[0] % std::size(kChecks)](in);
  check_hello(in);
  check_header(in);
  return 0;
}
