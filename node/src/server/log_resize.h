// Resizes the log's memory while the server runs (docs/design/log.md#resize): sets the target, and
// works towards it in slices on the first reactor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backup/frame_store.h"
#include "base/status.h"
#include "runtime/reactor.h"
#include "server/master.h"
#include "wire/control_messages.h"

namespace ramcloud::server {

class LogResize {
 public:
  /// On the first reactor; all arguments outlive this. `replicas`: R.
  LogResize(Reactor& reactor, Master& master, const FrameStore& frames, uint32_t replicas);
  LogResize(const LogResize&) = delete;
  LogResize& operator=(const LogResize&) = delete;

  /// Returns the result of Log::resize(). Setting the same target again is not an error.
  Status set(uint64_t bytes);
  /// The progress, and notes about other resources that are too small for the target.
  wire::ResizeLogReply state() const;

  /// The pause between two slices, and between checks while a shrink waits for cleaning.
  static constexpr Duration kSlice = std::chrono::milliseconds(1);
  static constexpr Duration kWait = std::chrono::milliseconds(20);

 private:
  void on_timer();
  uint64_t live_bytes() const;
  void note_hash_table(uint64_t target, std::vector<std::string>& notes) const;
  void note_backup(uint64_t target, std::vector<std::string>& notes) const;

  Reactor& reactor_;
  Master& master_;
  const FrameStore& frames_;
  const uint32_t replicas_;
  Timer timer_;
};

}  // namespace ramcloud::server
