// Makes the system calls that wait for a device, beside the reactor: by io_uring where the kernel
// allows it, else on a thread. Container runtimes forbid io_uring by default.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/disk_job.h"
#include "runtime/epoll_source.h"
#include "runtime/reactor.h"

namespace ramcloud {

/// `--disk-io`.
enum class DiskIo : uint8_t { kAuto, kUring, kThreads };

class DiskEngine {
 public:
  /// Waits for the call or job that has begun; the rest is not done, and their waiters are not
  /// called.
  virtual ~DiskEngine() = default;
  /// Begins the job when its turn comes; calls its waiters in a later turn. Reactor's thread.
  virtual void add(std::shared_ptr<DiskJob> job) = 0;
  /// "io_uring", "threads".
  virtual const char* name() const = 0;
};

/// One thread, which does one call after the other.
std::shared_ptr<DiskEngine> make_disk_threads(Reactor& reactor);
/// Calls side by side in the kernel. UNSUPPORTED, with the reason, where it is not supported.
Result<std::shared_ptr<DiskEngine>> make_disk_uring(Reactor& reactor, EpollSource& events);

/// As asked for. With kAuto the log says (once a process) why it is not io_uring. Reactor and
/// source outlive it.
Result<std::shared_ptr<DiskEngine>> make_disk_engine(Reactor& reactor, EpollSource& events,
                                                     DiskIo io);

}  // namespace ramcloud
