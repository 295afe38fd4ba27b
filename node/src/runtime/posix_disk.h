// Real files. Writes go to the page cache from the reactor's thread; one thread does what waits for
// the device.
#pragma once

#include <memory>

#include "runtime/disk.h"
#include "runtime/reactor.h"

namespace ramcloud {

class PosixDisk final : public Disk {
 public:
  /// The reactor outlives the disk.
  explicit PosixDisk(Reactor& reactor);
  /// Waits for a sync or allocation that is under way; those still queued are not done.
  ~PosixDisk() override;

  Result<std::unique_ptr<File>> open(const std::string& path, uint64_t size) override;
  bool exists(const std::string& path) override;
  uint64_t device_bytes(const std::string& path) override;
  uint64_t measure_read_speed(const std::string& path) override;
  Status make_directories(const std::string& path) override;

 private:
  struct Worker;
  Reactor& reactor_;
  std::shared_ptr<Worker> worker_;
};

}  // namespace ramcloud
