#include "runtime/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>

#include "runtime/thread.h"

namespace ramcloud {

Result<SocketAddress> numeric_address(const std::string& host, uint16_t port) {
  SocketAddress address;
  sockaddr_in v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&address.storage, &v4, sizeof v4);
    address.length = sizeof v4;
    return address;
  }
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&address.storage, &v6, sizeof v6);
    address.length = sizeof v6;
    return address;
  }
  return fail(StatusCode::kInvalidArgument,
              "host '" + host + "': accepted is an IPv4 or IPv6 address");
}

namespace {

Result<Resolver::Addresses> ask_system(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return fail(StatusCode::kUnavailable,
                "host '" + host + "' does not resolve: " + gai_strerror(error));
  }
  Resolver::Addresses addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.length = each->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

struct Query {
  std::string host;
  uint16_t port;
  std::vector<Resolver::Callback> done;
  bool running = false;
};

}  // namespace

struct Resolver::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<Query> queries;  // in the order in which they came; those that run stay until they end
  LookUp look_up;
  Reactor* reactor = nullptr;  // null once the resolver is destroyed
  size_t threads = 0;

  /// The first query that waits for a thread.
  std::list<Query>::iterator waiting() {
    return std::ranges::find(queries, false, &Query::running);
  }
};

Resolver::Resolver(Reactor& reactor, LookUp look_up) : state_(std::make_shared<State>()) {
  state_->look_up = look_up ? std::move(look_up) : &ask_system;
  state_->reactor = &reactor;
}

Resolver::~Resolver() {
  const std::lock_guard guard(state_->mutex);
  state_->reactor = nullptr;
  state_->queries.clear();
  state_->changed.notify_all();
}

void Resolver::resolve(const std::string& host, uint16_t port, Callback done) {
  const std::lock_guard guard(state_->mutex);
  for (Query& query : state_->queries) {
    if (query.host == host && query.port == port) return query.done.push_back(std::move(done));
  }
  Query& query = state_->queries.emplace_back(host, port);
  query.done.push_back(std::move(done));
  state_->changed.notify_one();
  // Each thread has at most one query.
  if (state_->threads >= std::min(kMaxThreads, state_->queries.size())) return;
  ++state_->threads;
  Thread("resolver", [state = state_] { serve(state); }).detach();
}

void Resolver::serve(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] {
      return state->reactor == nullptr || state->waiting() != state->queries.end();
    });
    if (state->reactor == nullptr) return;
    const auto query = state->waiting();
    query->running = true;
    const std::string host = query->host;
    const uint16_t port = query->port;
    lock.unlock();
    auto result = state->look_up(host, port);
    lock.lock();
    if (state->reactor == nullptr) return;
    // Checked again on the reactor's thread: the resolver may have been destroyed in between.
    state->reactor->post(
        [state, result = std::move(result), waiters = std::move(query->done)]() mutable {
          for (const Callback& done : waiters) {
            if (state->reactor != nullptr) done(result);
          }
        });
    state->queries.erase(query);
  }
}

}  // namespace ramcloud
