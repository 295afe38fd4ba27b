// The event source of real processes: sockets through epoll, an eventfd that wakes it, and a timerfd
// that ends a sleep.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "runtime/reactor.h"
#include "runtime/unique_fd.h"

namespace ramcloud {

class FdHandler {
 public:
  virtual ~FdHandler() = default;
  /// `events` are EPOLLIN, EPOLLOUT, EPOLLHUP, … (level-triggered). May remove any descriptor.
  virtual void on_ready(uint32_t events) = 0;
  /// True: if several descriptors are ready, this one is handled first. Backups' answers are
  /// urgent; clients' requests are not.
  virtual bool urgent() const { return false; }
  /// Asked after on_ready(): all that arrived were heartbeats (EventSource::only_heartbeats).
  virtual bool only_heartbeats() const { return false; }
};

class EpollSource final : public EventSource {
 public:
  /// At most so many events are taken from the system at a time, and handled in one poll(), or in
  /// several if the turn's budget is spent. A small number, so that an urgent event is seen soon.
  static constexpr size_t kMostEvents = 16;
  explicit EpollSource(size_t events_per_poll = kMostEvents);

  /// Calls `handler` while `fd` is ready for `events` (EPOLLIN, EPOLLOUT), until removed. IO_ERROR
  /// if the descriptor cannot be watched.
  Status add(int fd, uint32_t events, FdHandler* handler);
  void modify(int fd, uint32_t events);
  /// Call it before the descriptor is closed. No event of it is delivered afterwards.
  void remove(int fd);

  /// Readable when poll() has something to do: for a program with its own event loop, and for
  /// nested sources.
  int descriptor() const { return epoll_.get(); }

  void set_budget(TurnBudget* budget) override { budget_ = budget; }
  bool poll() override;
  bool only_heartbeats() const override { return only_heartbeats_; }
  /// Both are times of SystemClock. A timeout of epoll_wait() would be set and stopped in each
  /// sleep, which costs a busy server more than the sleep itself. So there is one timer, and sleeps
  /// that follow each other within kOften leave it as it is if it is set for an earlier time.
  void wait(Time now, Time until) override;
  static constexpr Duration kOften = std::chrono::milliseconds(1);
  void wake() override;

 private:
  struct Watched {
    FdHandler* handler = nullptr;
    /// Distinguishes events of this descriptor from those of an earlier descriptor with the same
    /// number.
    uint32_t generation = 0;
  };
  uint64_t key_of(int fd) const;
  void take_ready(int timeout_ms);
  void set_timer(Time when);
  void urgent_first();

  UniqueFd epoll_;
  UniqueFd wake_;
  UniqueFd timer_;
  Time timer_at_ = kNever;  // when timer_ fires; kNever: it is not set, or has fired
  Time last_sleep_{};
  std::vector<Watched> watched_;  // by descriptor
  std::array<epoll_event, kMostEvents> ready_{};
  const size_t events_per_poll_;
  int ready_count_ = 0;  // of ready_; those from next_ on are not handled yet
  int next_ = 0;
  bool only_heartbeats_ = false;  // in the last poll()
  TurnBudget* budget_ = nullptr;
};

}  // namespace ramcloud
