// Real files. Writes go to the page cache from the reactor's thread; an engine makes the calls that
// wait for the device: syncs, allocations, and writes past the page cache.
#pragma once

#include <memory>

#include "runtime/disk.h"
#include "runtime/disk_engine.h"
#include "runtime/reactor.h"

namespace ramcloud {

/// `--direct-io`: whether files are written past the page cache.
enum class DirectIo : uint8_t {
  kAuto,    // if the file system allows it; otherwise logs why not
  kAlways,  // opening a file fails if it does not support it
  kNever,
};

/// Reads a file with a UUID as text, like the kernel's boot_id; all zero if it is not one.
BootId read_boot_id(const std::string& path);

class PosixDisk final : public Disk {
 public:
  /// Uses a thread and no direct writes. The reactor outlives the disk.
  explicit PosixDisk(Reactor& reactor);
  PosixDisk(std::shared_ptr<DiskEngine> engine, DirectIo direct_io);
  /// Waits for calls that the engine has begun; the rest is dropped.
  ~PosixDisk() override;

  /// UNSUPPORTED if DirectIo::kAlways is not supported.
  Result<std::unique_ptr<File>> open(const std::string& path, uint64_t size) override;
  bool exists(const std::string& path) override;
  uint64_t device_bytes(const std::string& path) override;
  uint64_t measure_read_speed(const std::string& path) override;
  Status make_directories(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  BootId boot_id() const override;
  const char* engine() const override { return engine_->name(); }

 private:
  Status open_direct(OpenFile& file) const;
  std::shared_ptr<DiskEngine> engine_;
  DirectIo direct_io_;
};

}  // namespace ramcloud
