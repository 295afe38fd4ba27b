// With several reactors of a server, each has its own transport. Requests that only the first
// reactor serves are forwarded to it. The replies return to the connections of the requests
// (docs/design/runtime.md).
#pragma once

#include <vector>

#include "runtime/reactor.h"
#include "transport/transport.h"

namespace ramcloud {

/// The first reactor's transport, with replies to requests of all reactors.
class RoutedReplies final : public Transport {
 public:
  struct Place {
    Reactor* reactor = nullptr;
    Transport* transport = nullptr;
  };
  /// The first place is this reactor's own. All arguments outlive this.
  explicit RoutedReplies(std::vector<Place> places) : places_(std::move(places)) {}

  Result<std::shared_ptr<Session>> connect(const Locator& locator,
                                           const PeerIdentity& expected) override;
  Result<HostPort> listen(const HostPort& address, Side side, RequestHandler& handler) override;
  /// Sets the identity of all reactors' transports. Other reactors apply it in a later turn, but
  /// before any connection that is handed to them afterwards.
  void set_identity(const PeerIdentity& self) override;
  /// Replies on the transport of handle.reactor; another reactor gets a copy of the body.
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body) override;
  void reply_owned(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body,
                   std::string&& tail) override;
  /// The state of other reactors' connections is not known here. They count as open, and the little
  /// memory held for them is not charged.
  bool has_room(const ReplyHandle& handle, uint64_t bytes) const override {
    return handle.reactor != 0 || places_.front().transport->has_room(handle, bytes);
  }
  void charge(const ReplyHandle& handle, int64_t bytes) override {
    if (handle.reactor == 0) places_.front().transport->charge(handle, bytes);
  }
  bool is_open(const ReplyHandle& handle) const override {
    return handle.reactor != 0 || places_.front().transport->is_open(handle);
  }
  uint64_t closed_connections() const override {
    return places_.front().transport->closed_connections();
  }
  /// Gathers replies to this reactor's own connections only.
  void begin_replies() override { places_.front().transport->begin_replies(); }
  void end_replies() override { places_.front().transport->end_replies(); }

 private:
  std::vector<Place> places_;
};

}  // namespace ramcloud
