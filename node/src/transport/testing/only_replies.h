// For tests of services without a network: a transport with only reply().
#pragma once

#include "transport/transport.h"

namespace ramcloud::testing {

/// Cannot connect or listen; a derived class handles the replies.
class OnlyReplies : public Transport {
 public:
  Result<std::shared_ptr<Session>> connect(const Locator&, const PeerIdentity&) override {
    return fail(StatusCode::kUnsupported, "only replies");
  }
  Result<HostPort> listen(const HostPort&, Side, RequestHandler&) override {
    return fail(StatusCode::kUnsupported, "only replies");
  }
  void set_identity(const PeerIdentity&) override {}
};

}  // namespace ramcloud::testing
