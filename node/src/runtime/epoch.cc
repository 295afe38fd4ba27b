#include "runtime/epoch.h"

#include <algorithm>

#include "runtime/reactor.h"

namespace ramcloud {
namespace {
/// How often a grace period checks again: about the time of the longest slice of work.
constexpr Duration kLookInterval = std::chrono::microseconds(20);
}  // namespace

Epochs::Participant::Participant(Epochs& epochs) : epochs_(epochs), seen_(epochs.current()) {
  SpinGuard guard(epochs_.lock_);
  epochs_.participants_.push_back(this);
}

Epochs::Participant::~Participant() {
  SpinGuard guard(epochs_.lock_);
  std::erase(epochs_.participants_, this);
}

void Epochs::Participant::go_online() {
  uint64_t epoch = epochs_.current_.load(std::memory_order_seq_cst);
  for (;;) {
    seen_.store(epoch, std::memory_order_seq_cst);
    // A thread that advanced the epoch before it saw us online does not wait for us, so we must
    // enter its epoch.
    const uint64_t now = epochs_.current_.load(std::memory_order_seq_cst);
    if (now == epoch) return;
    epoch = now;
  }
}

uint64_t Epochs::advance(Time now) {
  SpinGuard guard(lock_);
  const uint64_t epoch = current_.fetch_add(1, std::memory_order_seq_cst) + 1;
  begun_.push_back({epoch, now});
  if (begun_.size() == 1) {
    waiting_since_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  return epoch;
}

uint64_t Epochs::oldest() const {
  SpinGuard guard(lock_);
  uint64_t oldest = current_.load(std::memory_order_seq_cst);
  for (const Participant* participant : participants_) {
    const uint64_t seen = participant->seen_.load(std::memory_order_seq_cst);
    if (seen != kOffline) oldest = std::min(oldest, seen);
  }
  return oldest;
}

void Epochs::forget_passed() {
  const uint64_t all_passed = oldest();
  SpinGuard guard(lock_);
  while (!begun_.empty() && begun_.front().epoch <= all_passed) begun_.pop_front();
  const int64_t since = begun_.empty() ? kNobody : begun_.front().at.time_since_epoch().count();
  waiting_since_.store(since, std::memory_order_relaxed);
}

Duration Epochs::oldest_age(Time now) const {
  const int64_t since = waiting_since_.load(std::memory_order_relaxed);
  if (since == kNobody) return Duration::zero();
  return std::max(now - Time(Duration(since)), Duration::zero());
}

Task<void> Epochs::grace_period(Reactor& reactor) {
  const uint64_t epoch = advance(reactor.now());
  do {
    co_await reactor.sleep(kLookInterval);
  } while (!passed(epoch));
  forget_passed();
}

}  // namespace ramcloud
