#include "coordinator/metadata/testing/silent_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

namespace ramcloud::testing {
namespace {

constexpr int kLookMs = 20;  // how often the flags are checked

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

SilentProxy::SilentProxy(const HostPort& target) : target_(target.port) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, generic, &size) != 0) {
    throw std::runtime_error("the proxy cannot listen");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

SilentProxy::~SilentProxy() {
  ending_ = true;
  thread_.join();
  for (const auto& [client, server] : connections_) {
    ::close(client);
    ::close(server);
  }
  ::close(listener_);
}

void SilentProxy::run() {
  while (!ending_) {
    if (silent_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
      continue;
    }
    std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
    for (const auto& [client, server] : connections_) {
      polled.push_back({client, POLLIN, 0});
      polled.push_back({server, POLLIN, 0});
    }
    ::poll(polled.data(), polled.size(), kLookMs);
    if (silent_) continue;
    std::vector<std::pair<int, int>> living;
    for (size_t i = 0; i < connections_.size(); ++i) {
      const auto [client, server] = connections_[i];
      const bool from_client = polled[1 + 2 * i].revents != 0;
      const bool from_server = polled[2 + 2 * i].revents != 0;
      if ((!from_client || pass(client, server)) && (!from_server || pass(server, client))) {
        living.emplace_back(client, server);
      } else {
        ::close(client);
        ::close(server);
      }
    }
    connections_ = std::move(living);
    if (polled[0].revents != 0) accept_one();
  }
}

void SilentProxy::accept_one() {
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(target_);
  if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(client);
    ::close(server);
    return;
  }
  connections_.emplace_back(client, server);
}

bool SilentProxy::pass(int from, int to) {
  char bytes[16 << 10];
  const ssize_t got = ::read(from, bytes, sizeof bytes);
  if (got <= 0) return false;
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t n = ::send(to, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += n;
  }
  return true;
}

}  // namespace ramcloud::testing
