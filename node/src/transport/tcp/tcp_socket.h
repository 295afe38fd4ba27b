// Creates the sockets of this transport: non-blocking, no delay, with detection of dead peers.
#pragma once

#include "base/text.h"
#include "runtime/resolver.h"
#include "runtime/unique_fd.h"

namespace ramcloud::tcp {

/// A socket that is connecting (or has failed already: see finish_connect()). Sets `refused` if the
/// connection was refused.
Result<UniqueFd> start_connect(const SocketAddress& to, bool* refused = nullptr);
/// The outcome, once the socket is writable.
Status finish_connect(int fd, bool* refused);
/// A listening socket and the address it is bound to. The host is an IPv4 or IPv6 address, or a
/// name (which is looked up at once: listening happens at start). Errors name the address.
Result<std::pair<UniqueFd, HostPort>> start_listen(const HostPort& address);
/// Options of a connected socket of either side.
void set_options(int fd);

}  // namespace ramcloud::tcp
