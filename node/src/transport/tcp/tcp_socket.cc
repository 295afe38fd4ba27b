#include "transport/tcp/tcp_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>

namespace ramcloud::tcp {
namespace {

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

Status system_error(StatusCode code, const std::string& what) {
  return {code, what + ": " + std::strerror(errno)};
}

Result<SocketAddress> listen_address(const HostPort& address) {
  const std::string host = address.host.empty() ? "0.0.0.0" : address.host;
  if (auto numeric = numeric_address(host, address.port)) return numeric;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return fail(StatusCode::kInvalidArgument,
                "listen address '" + address.to_string() + "': " + gai_strerror(error));
  }
  SocketAddress result;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  result.length = found->ai_addrlen;
  freeaddrinfo(found);
  return result;
}

uint16_t bound_port(int fd) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

}  // namespace

Result<UniqueFd> start_connect(const SocketAddress& to, bool* refused) {
  UniqueFd fd(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail(system_error(StatusCode::kUnavailable, "socket"));
  set_options(fd.get());
  if (::connect(fd.get(), to.get(), to.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    if (refused != nullptr) *refused = errno == ECONNREFUSED;
    return fail(system_error(StatusCode::kUnavailable, "connect"));
  }
  return fd;
}

Status finish_connect(int fd, bool* refused) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  *refused = error == ECONNREFUSED;
  if (error == 0) return {};
  errno = error;
  return system_error(StatusCode::kUnavailable, "connect");
}

Result<std::pair<UniqueFd, HostPort>> start_listen(const HostPort& address) {
  const auto socket_address = listen_address(address);
  if (!socket_address) return fail(socket_address.error());
  const std::string what = "listen on " + address.to_string();
  UniqueFd fd(
      ::socket(socket_address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail(system_error(StatusCode::kUnavailable, what));
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  constexpr int kBacklog = 1024;
  if (::bind(fd.get(), socket_address->get(), socket_address->length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return fail(system_error(StatusCode::kUnavailable, what));
  }
  const uint16_t port = bound_port(fd.get());
  return std::pair{std::move(fd), HostPort{address.host, port}};
}

void set_options(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // An unreachable peer (its node failed, or its address no longer exists) is detected within about
  // twenty seconds if bytes wait for it, otherwise within a minute and a half. Not sooner: a server
  // whose replication waits until a dead backup is given up (ten seconds) reads no requests
  // meanwhile, which looks the same to the kernel.
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace ramcloud::tcp
