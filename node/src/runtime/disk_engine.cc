#include "runtime/disk_engine.h"

#include <atomic>

#include "base/logging.h"

namespace ramcloud {

Result<std::shared_ptr<DiskEngine>> make_disk_engine(Reactor& reactor, EpollSource& events,
                                                     DiskIo io) {
  if (io == DiskIo::kThreads) return make_disk_threads(reactor);
  auto uring = make_disk_uring(reactor, events);
  if (uring || io == DiskIo::kUring) return uring;
  // `ramcloudd dev` has several servers in one process.
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    log_info("disk.io_uring_unavailable",
             {{"error", uring.error().message()}, {"instead", "a thread"}});
  }
  return make_disk_threads(reactor);
}

}  // namespace ramcloud
