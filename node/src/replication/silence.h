// Which backups do not answer the messages they are sent: the bookkeeping, without clock or call.
// Silence does not prove that a backup failed. The master may still go on without it, because of
// the epoch fence (docs/design/replication.md#losing-a-backup).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud {

/// A call that ended in this way had no answer from the backup.
inline bool is_silence(const Status& status) {
  return status == StatusCode::kDeadlineExceeded || status == StatusCode::kUnavailable ||
         status == StatusCode::kConnectionLost;
}

/// All times are of one clock.
class Silence {
 public:
  /// Unanswered messages in a row.
  static constexpr uint32_t kUnanswered = 3;

  /// `limit`: how long a backup may be silent; 0: for ever.
  explicit Silence(Duration limit) : limit_(limit) {}

  /// The backup answered something.
  void heard(uint64_t server_id) {
    if (!silent_.empty()) silent_.erase(server_id);
  }
  /// The message sent at `sent` was not answered in time.
  void unanswered(uint64_t server_id, Time sent) {
    if (sent < counted_from_) return;
    One& one = silent_.try_emplace(server_id, One{sent, 0}).first->second;
    ++one.unanswered;
  }
  /// This process was suspended: silence measured up to now says nothing about the backups.
  void discard(Time now) {
    counted_from_ = now;
    silent_.clear();
  }
  /// Forgets the backups that are not live any more.
  template <typename IsLive>
  void forget_unless(IsLive is_live) {
    std::erase_if(silent_, [&](const auto& one) { return !is_live(one.first); });
  }
  size_t size() const { return silent_.size(); }
  /// Removes and returns the backups that were silent for the limit and left kUnanswered messages
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
    Time since{};  // when the first unanswered message was sent
    uint32_t unanswered = 0;
  };
  const Duration limit_;
  Time counted_from_{};
  std::map<uint64_t, One> silent_;
};

}  // namespace ramcloud
