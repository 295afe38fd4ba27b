#include "runtime/epoll_source.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/logging.h"

namespace ramcloud {

EpollSource::EpollSource(size_t events_per_poll)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      events_per_poll_(std::clamp<size_t>(events_per_poll, 1, kMostEvents)) {
  if (!epoll_.valid() || !wake_.valid() || !timer_.valid()) {
    fatal("no_epoll", {{"error", std::strerror(errno)}});
  }
  // Edge-triggered, the timer is reported once each time it fires, and need not be read.
  Status added = add(wake_.get(), EPOLLIN, nullptr);
  if (added.ok()) added = add(timer_.get(), EPOLLIN | EPOLLET, nullptr);
  if (!added.ok()) fatal("no_epoll", {{"error", added}});
}

uint64_t EpollSource::key_of(int fd) const {
  return (uint64_t{watched_[static_cast<size_t>(fd)].generation} << 32) | static_cast<uint32_t>(fd);
}

Status EpollSource::add(int fd, uint32_t events, FdHandler* handler) {
  if (static_cast<size_t>(fd) >= watched_.size()) watched_.resize(static_cast<size_t>(fd) + 1);
  Watched& watched = watched_[static_cast<size_t>(fd)];
  watched.handler = handler;
  ++watched.generation;
  epoll_event event{.events = events, .data = {.u64 = key_of(fd)}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return {StatusCode::kIoError, std::string("epoll_ctl: ") + std::strerror(errno)};
  }
  return {};
}

void EpollSource::modify(int fd, uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = key_of(fd)}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EpollSource::remove(int fd) {
  Watched& watched = watched_[static_cast<size_t>(fd)];
  watched.handler = nullptr;
  ++watched.generation;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

bool EpollSource::poll() {
  if (next_ == ready_count_) take_ready(0);
  bool handled = false;
  only_heartbeats_ = true;
  while (next_ < ready_count_ && !(handled && budget_ != nullptr && budget_->spent())) {
    const epoll_event event = ready_[static_cast<size_t>(next_++)];
    const auto fd = static_cast<int>(event.data.u64 & 0xffffffff);
    if (event.data.u64 != key_of(fd)) continue;  // removed by an earlier event
    FdHandler* handler = watched_[static_cast<size_t>(fd)].handler;
    if (handler != nullptr) {
      handler->on_ready(event.events);
      handled = true;
      const bool stays = event.data.u64 == key_of(fd);  // it may have removed itself
      only_heartbeats_ = only_heartbeats_ && stays && handler->only_heartbeats();
    } else if (fd == timer_.get()) {
      timer_at_ = kNever;
    } else {
      uint64_t count_of_wakes;
      [[maybe_unused]] const auto n = ::read(fd, &count_of_wakes, sizeof count_of_wakes);
    }
  }
  return handled;
}

void EpollSource::wait(Time now, Time until) {
  if (next_ < ready_count_) return;
  const bool rare = now - last_sleep_ > kOften;
  last_sleep_ = now;
  if (until < timer_at_ || (rare && timer_at_ < until)) set_timer(until);
  take_ready(-1);
}

void EpollSource::set_timer(Time when) {
  itimerspec at{};  // of zeros: stops it
  if (when != kNever) {
    const auto since = std::max(when.time_since_epoch(), Duration(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    at.it_value = {seconds.count(), (since - seconds).count()};
  }
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
  timer_at_ = when;
}

void EpollSource::take_ready(int timeout_ms) {
  next_ = 0;
  const int count =
      epoll_wait(epoll_.get(), ready_.data(), static_cast<int>(events_per_poll_), timeout_ms);
  ready_count_ = std::max(count, 0);  // interrupted by a signal: nothing is ready
  if (ready_count_ > 1) urgent_first();
}

void EpollSource::urgent_first() {
  const auto is_urgent = [this](const epoll_event& event) {
    const auto fd = static_cast<int>(event.data.u64 & 0xffffffff);
    if (event.data.u64 != key_of(fd)) return false;
    const FdHandler* handler = watched_[static_cast<size_t>(fd)].handler;
    return handler != nullptr && handler->urgent();
  };
  // Moves urgent events to the front; they keep their order.
  auto to = ready_.begin();
  for (auto at = ready_.begin(); at != ready_.begin() + ready_count_; ++at) {
    if (is_urgent(*at)) std::iter_swap(to++, at);
  }
}

void EpollSource::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace ramcloud
