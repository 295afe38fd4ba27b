#include "transport/filtering_acceptor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <vector>

#include "base/logging.h"
#include "runtime/thread.h"
#include "transport/tcp/tcp_socket.h"

namespace ramcloud {
namespace {

/// How long accepting pauses when there are no descriptors left.
constexpr Duration kRest = 1s;

Counter& event_counter(MetricsRegistry& metrics, const std::string& port, const char* event) {
  return metrics.counter(
      "ramcloud_front_connections_total",
      "Connections to the HTTP port and the admin API: accepted, admitted (their first bytes were "
      "a request), refused (they were not), timed_out (they did not come), dropped (too many), and "
      "times that nothing was accepted for a second because no file descriptors were left.",
      {{"port", port}, {"event", event}});
}

/// Identifies a socket by its inode, because descriptors are reused. The library may close an
/// admitted socket at any moment, which is what the caller checks. Uses the raw system call,
/// because the thread sanitizer treats fstat() as a use of the descriptor.
ino_t inode_of(int fd) {
  struct stat info{};
  return ::syscall(SYS_fstat, fd, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

struct FilteringAcceptor::Impl {
  struct Waiting {
    UniqueFd fd;
    Time deadline;
  };

  Impl(Options o, Judge j, Admit a, MetricsRegistry& metrics)
      : options(std::move(o)),
        judge(std::move(j)),
        admit(std::move(a)),
        accepted(event_counter(metrics, options.port, "accepted")),
        admitted(event_counter(metrics, options.port, "admitted")),
        refused(event_counter(metrics, options.port, "refused")),
        timed_out(event_counter(metrics, options.port, "timed_out")),
        dropped(event_counter(metrics, options.port, "dropped")),
        accept_paused(event_counter(metrics, options.port, "accept_paused")),
        first_bytes(options.max_first_bytes) {}

  void watch(int fd, uint32_t events) {
    epoll_event event{.events = events, .data = {.fd = fd}};
    epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void run() {
    std::array<epoll_event, 64> ready;
    while (!stopping) {
      const int count = epoll_wait(epoll.get(), ready.data(), ready.size(), wait_ms());
      for (int i = 0; i < count; ++i) {
        const int fd = ready[static_cast<size_t>(i)].data.fd;
        if (fd == listener.get()) {
          accept_some();
        } else if (fd == wake.get()) {
          return;
        } else if (const auto found = by_fd.find(fd); found != by_fd.end()) {
          judge_first_bytes(found->second);
        }
      }
      drop_late();
    }
  }

  int wait_ms() const {
    Time next = rest_until != Time{} ? rest_until : kNever;
    if (!waiting.empty()) next = std::min(next, waiting.front().deadline);
    if (next == kNever) return -1;
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(next - clock.now()).count();
    return static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000));
  }

  void accept_some() {
    constexpr int kAcceptsPerTurn = 64;  // then connections with input are handled
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.valid()) {
        no_descriptors = false;
        take(std::move(fd));
        continue;
      }
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) rest();
      return;
    }
  }

  /// Connections in the backlog keep the port ready: without a pause the loop would spin.
  void rest() {
    if (!no_descriptors) {
      log_warn("front.accept_paused", {{"port", options.port}, {"error", std::strerror(errno)}});
    }
    no_descriptors = true;
    accept_paused.add();
    epoll_ctl(epoll.get(), EPOLL_CTL_DEL, listener.get(), nullptr);
    rest_until = clock.now() + kRest;
  }

  void take(UniqueFd fd) {
    accepted.add();
    if (waiting.size() + inside.size() >= options.max_connections) forget_who_left();
    if (waiting.size() + inside.size() >= options.max_connections) {
      dropped.add();
      if (waiting.empty()) return;  // closes the new one
      // Close the connection that has been silent the longest to make room for a new one.
      drop(waiting.begin());
    }
    tcp::set_options(fd.get());
    const int number = fd.get();
    waiting.push_back({std::move(fd), clock.now() + options.first_bytes_timeout});
    by_fd[number] = std::prev(waiting.end());
    watch(number, EPOLLIN | EPOLLRDHUP | EPOLLET);
  }

  void judge_first_bytes(std::list<Waiting>::iterator visitor) {
    const ssize_t n = ::recv(visitor->fd.get(), first_bytes.data(), first_bytes.size(), MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    Verdict verdict = Verdict::kRefuse;
    if (n > 0) {
      verdict = judge({first_bytes.data(), static_cast<size_t>(n)});
      if (verdict == Verdict::kWait && static_cast<size_t>(n) == first_bytes.size()) {
        verdict = Verdict::kRefuse;
      }
    }
    if (verdict == Verdict::kWait) return;
    UniqueFd fd = std::move(visitor->fd);
    by_fd.erase(fd.get());
    waiting.erase(visitor);
    if (verdict == Verdict::kRefuse) {
      refused.add();
      return;
    }
    admitted.add();
    epoll_ctl(epoll.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
    inside.emplace_back(fd.get(), inode_of(fd.get()));
    admit(std::move(fd));
  }

  void drop(std::list<Waiting>::iterator visitor) {
    by_fd.erase(visitor->fd.get());
    waiting.erase(visitor);
  }

  void drop_late() {
    const Time now = clock.now();
    while (!waiting.empty() && waiting.front().deadline <= now) {
      timed_out.add();
      drop(waiting.begin());
    }
    if (rest_until != Time{} && rest_until <= now) {
      rest_until = Time{};
      watch(listener.get(), EPOLLIN);
    }
  }

  void forget_who_left() {
    std::erase_if(inside, [](const auto& one) { return inode_of(one.first) != one.second; });
  }

  const Options options;
  const Judge judge;
  const Admit admit;
  Counter &accepted, &admitted, &refused, &timed_out, &dropped, &accept_paused;
  SystemClock clock;
  UniqueFd epoll, wake, listener;
  std::atomic<bool> stopping{false};
  // Used by the acceptor's thread only.
  std::vector<char> first_bytes;
  std::list<Waiting> waiting;  // in order of arrival, which is also that of their deadlines
  std::map<int, std::list<Waiting>::iterator> by_fd;
  std::vector<std::pair<int, ino_t>> inside;  // connections that the library probably still has
  bool no_descriptors = false;                // and it was logged
  Time rest_until{};
  Thread thread;
};

FilteringAcceptor::FilteringAcceptor(Options options, Judge judge, Admit admit,
                                     MetricsRegistry& metrics)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(judge), std::move(admit),
                                   metrics)) {}

FilteringAcceptor::~FilteringAcceptor() {
  stop();
}

Result<HostPort> FilteringAcceptor::start(const HostPort& address) {
  auto listening = tcp::start_listen(address);
  if (!listening) return fail(std::move(listening.error()));
  impl_->listener = std::move(listening->first);
  impl_->epoll = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  impl_->wake = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!impl_->epoll.valid() || !impl_->wake.valid()) {
    return fail(StatusCode::kIoError, std::string("epoll: ") + std::strerror(errno));
  }
  impl_->watch(impl_->listener.get(), EPOLLIN);
  impl_->watch(impl_->wake.get(), EPOLLIN);
  impl_->thread = Thread(
      impl_->options.port + "-door", [impl = impl_.get()] { impl->run(); },
      Thread::Priority::kBackground);
  return listening->second;
}

void FilteringAcceptor::stop() {
  if (!impl_->listener.valid()) return;
  impl_->stopping = true;
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(impl_->wake.get(), &one, sizeof one);
  impl_->thread.join();
  impl_->by_fd.clear();
  impl_->waiting.clear();
  impl_->listener.reset();
}

}  // namespace ramcloud
