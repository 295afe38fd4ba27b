#include "server/forwarder.h"

#include <string>

#include "base/sometimes.h"
#include "master/data_plane.h"

namespace ramcloud::server {

bool any_reactor_serves(uint16_t opcode) {
  return master::is_data_opcode(opcode) ||
         opcode == static_cast<uint16_t>(wire::Opcode::kReplicaWrite);
}

void Forwarder::forward(void* forwarder, const Request& request) {
  struct Copy {
    ReplyHandle handle;
    wire::MessageHeader header;
    std::string body;
  };
  auto& self = *static_cast<Forwarder*>(forwarder);
  const uint64_t size = request.body.size() + sizeof(Copy);
  if (self.bytes_.fetch_add(size, std::memory_order_relaxed) + size > kMaxBytes) {
    RC_SOMETIMES("server.forwarded_requests_are_refused");
    self.bytes_.fetch_sub(size, std::memory_order_relaxed);
    return reply_error(
        self.transport_, request.reply,
        {StatusCode::kRetry, "too many requests wait for this server's first reactor"},
        kRetryAfterUs);
  }
  Copy copy{request.reply, request.header, std::string(request.body)};
  copy.handle.reactor = self.from_;
  self.first_.post([&self, size, copy = std::move(copy)] {
    self.registry_.on_request(copy.handle, copy.header, copy.body);
    self.bytes_.fetch_sub(size, std::memory_order_relaxed);
  });
}

}  // namespace ramcloud::server
