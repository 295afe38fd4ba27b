#include "transport/routed_replies.h"

#include <memory>
#include <string>
#include <utility>

namespace ramcloud {

Result<std::shared_ptr<Session>> RoutedReplies::connect(const Locator& locator,
                                                        const PeerIdentity& expected) {
  return places_.front().transport->connect(locator, expected);
}

Result<HostPort> RoutedReplies::listen(const HostPort& address, Side side,
                                       RequestHandler& handler) {
  return places_.front().transport->listen(address, side, handler);
}

void RoutedReplies::set_identity(const PeerIdentity& self) {
  places_.front().transport->set_identity(self);
  for (size_t i = 1; i < places_.size(); ++i) {
    places_[i].reactor->post(
        [transport = places_[i].transport, self] { transport->set_identity(self); });
  }
}

void RoutedReplies::reply(const ReplyHandle& handle, StatusCode status,
                          std::span<const Slice> body) {
  const Place& place = places_.at(handle.reactor);
  if (handle.reactor == 0) return place.transport->reply(handle, status, body);
  std::string bytes;
  for (const Slice& slice : body) {
    bytes.append(static_cast<const char*>(slice.data), slice.size);
  }
  place.reactor->post([transport = place.transport, handle, status, bytes = std::move(bytes)] {
    const Slice slice(bytes);
    transport->reply(handle, status, {&slice, 1});
  });
}

void RoutedReplies::reply_owned(const ReplyHandle& handle, StatusCode status,
                                std::span<const Slice> body, std::string&& tail) {
  if (handle.reactor != 0) return Transport::reply_owned(handle, status, body, std::move(tail));
  places_.front().transport->reply_owned(handle, status, body, std::move(tail));
}

}  // namespace ramcloud
