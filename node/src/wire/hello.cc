#include "wire/hello.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace ramcloud::wire {
namespace {

constexpr char kMagic[8] = {'R', 'A', 'M', 'C', 'L', 'O', 'U', 'D'};
using Uuid = std::array<uint8_t, 16>;

Uuid uuid_of(const Hello& hello) {
  Uuid uuid;
  std::memcpy(uuid.data(), hello.cluster_uuid, uuid.size());
  return uuid;
}

bool wanted(const Uuid& asked, const Uuid& is) {
  return asked == Uuid{} || asked == is;
}
bool wanted(uint64_t asked, uint64_t is) {
  return asked == 0 || asked == is;
}

}  // namespace

Hello make_hello(const Uuid& cluster_uuid, uint64_t server_id) {
  Hello hello{};
  std::memcpy(hello.magic, kMagic, sizeof kMagic);
  hello.version_min = kVersionMin;
  hello.version_max = kVersionMax;
  hello.max_body_bytes = kMaxBodyBytes;
  std::memcpy(hello.cluster_uuid, cluster_uuid.data(), cluster_uuid.size());
  hello.server_id = server_id;
  return hello;
}

bool is_hello(const Hello& hello) {
  return std::memcmp(hello.magic, kMagic, sizeof kMagic) == 0;
}

Hello answer_hello(const Hello& asked, const Uuid& own_cluster_uuid, uint64_t own_server_id) {
  Hello answer = make_hello(own_cluster_uuid, own_server_id);
  const uint16_t version = std::min(asked.version_max, kVersionMax);
  StatusCode status = StatusCode::kOk;
  if (version < std::max(asked.version_min, kVersionMin) || asked.flags != 0) {
    status = StatusCode::kUnsupported;
  } else if (own_cluster_uuid == Uuid{} && uuid_of(asked) != Uuid{}) {
    status = StatusCode::kUnavailable;  // just started; it does not know its cluster yet
  } else if (!wanted(uuid_of(asked), own_cluster_uuid)) {
    status = StatusCode::kWrongCluster;
  } else if (!wanted(asked.server_id, own_server_id)) {
    status = StatusCode::kWrongServer;
  }
  // A refusal tells which versions are supported.
  if (status == StatusCode::kOk) answer.version_min = answer.version_max = version;
  answer.status = static_cast<uint16_t>(status);
  return answer;
}

Status check_answer(const Hello& asked, const Hello& answer) {
  if (!is_hello(answer)) {
    return {StatusCode::kProtocolError, "the peer does not speak this protocol"};
  }
  switch (static_cast<StatusCode>(answer.status)) {
    case StatusCode::kOk:
      break;
    case StatusCode::kUnsupported:
      return {StatusCode::kUnsupported,
              fmt::format("peer speaks protocol versions {} to {}, we {} to {}", answer.version_min,
                          answer.version_max, asked.version_min, asked.version_max)};
    case StatusCode::kUnavailable:
      return {StatusCode::kUnavailable, "peer is starting and does not know its cluster yet"};
    case StatusCode::kWrongCluster:
      return {StatusCode::kWrongCluster,
              fmt::format("peer belongs to cluster {}, not {}", format_uuid(uuid_of(answer)),
                          format_uuid(uuid_of(asked)))};
    case StatusCode::kWrongServer:
      return {StatusCode::kWrongServer,
              fmt::format("peer is server {}, not {}", answer.server_id, asked.server_id)};
    default:
      return {StatusCode::kProtocolError, fmt::format("hello refused with {}", answer.status)};
  }
  if (answer.version_min != answer.version_max || answer.version_max < asked.version_min ||
      answer.version_max > asked.version_max || !wanted(uuid_of(asked), uuid_of(answer)) ||
      !wanted(asked.server_id, answer.server_id)) {
    return {StatusCode::kProtocolError, "hello's answer accepts what was not asked"};
  }
  return {};
}

}  // namespace ramcloud::wire
