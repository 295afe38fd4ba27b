// Makes the system calls that wait for a device without blocking the reactor: with io_uring if the
// kernel allows it, otherwise on a thread. Container runtimes forbid io_uring by default.
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
  /// Waits for calls that have begun. Other jobs are dropped, and their waiters are not called.
  virtual ~DiskEngine() = default;
  /// Queues the job; calls its waiters in a later turn. Reactor's thread.
  virtual void add(std::shared_ptr<DiskJob> job) = 0;
  /// "io_uring", "threads".
  virtual const char* name() const = 0;
};

/// One thread, which does one call after the other.
std::shared_ptr<DiskEngine> make_disk_threads(Reactor& reactor);
/// Several calls at the same time in the kernel. UNSUPPORTED, with the reason, where it is not
/// supported.
Result<std::shared_ptr<DiskEngine>> make_disk_uring(Reactor& reactor, EpollSource& events);

/// The engine that was asked for. With kAuto, logs once in each process why io_uring is not used.
/// Reactor and source outlive it.
Result<std::shared_ptr<DiskEngine>> make_disk_engine(Reactor& reactor, EpollSource& events,
                                                     DiskIo io);

}  // namespace ramcloud
