// Resizes the log's memory while the server runs (docs/design/log.md#resize): takes the target, and
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
  /// On the first reactor; everything passed in outlives this. `replicas`: R.
  LogResize(Reactor& reactor, Master& master, const FrameStore& frames, uint32_t replicas);
  LogResize(const LogResize&) = delete;
  LogResize& operator=(const LogResize&) = delete;

  /// What Log::resize() says. The same target again is no error.
  Status set(uint64_t bytes);
  /// How far it is, and what else does not fit a log of the target's size.
  wire::ResizeLogReply state() const;

  /// Between two slices, and while a shrink waits for what cleaning frees.
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
