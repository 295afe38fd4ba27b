// Which backups do not answer, although they are asked: the arithmetic, without clock or call. That
// a master hears nothing proves nothing about a backup; it may go on without it all the same,
// behind the epoch fence (docs/design/replication.md#losing-a-backup).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"

namespace ramcloud {

/// All times are of one clock.
class Silence {
 public:
  /// In a row.
  static constexpr uint32_t kUnanswered = 3;

  /// `limit`: 0 is for ever.
  explicit Silence(Duration limit) : limit_(limit) {}

  /// It answered something.
  void heard(uint64_t server_id) { silent_.erase(server_id); }
  /// The message that was sent to it then was not answered in time.
  void unanswered(uint64_t server_id, Time sent) {
    if (sent < counted_from_) return;
    One& one = silent_.try_emplace(server_id, One{sent, 0}).first->second;
    ++one.unanswered;
  }
  /// This process did not run when it should have: what was measured up to now says nothing about
  /// others.
  void discard(Time now) {
    counted_from_ = now;
    silent_.clear();
  }
  /// Takes off those that were silent for the limit, and in which kUnanswered messages went
  /// unanswered.
  std::vector<uint64_t> take_silent(Time now) {
    std::vector<uint64_t> all;
    if (limit_ == Duration{}) return all;
    std::erase_if(silent_, [&](const auto& one) {
      const bool silent = one.second.unanswered >= kUnanswered && now - one.second.since >= limit_;
      if (silent) all.push_back(one.first);
      return silent;
    });
    return all;
  }

 private:
  struct One {
    Time since{};  // the first that was not answered was sent
    uint32_t unanswered = 0;
  };
  const Duration limit_;
  Time counted_from_{};
  std::map<uint64_t, One> silent_;
};

}  // namespace ramcloud
