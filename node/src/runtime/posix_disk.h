// Real files. Writes go to the page cache from the reactor's thread; operations that wait for the
// device are an engine's: syncs, allocations, and writes past the cache.
#pragma once

#include <memory>

#include "runtime/disk.h"
#include "runtime/disk_engine.h"
#include "runtime/reactor.h"

namespace ramcloud {

/// `--direct-io`: whether files can be written past the cache.
enum class DirectIo : uint8_t {
  kAuto,    // where the file system allows it; else the log says why not
  kAlways,  // a file that cannot is not opened
  kNever,
};

/// The sixteen bytes of a file with a UUID in text, as the kernel's has it; all zero if it is none.
BootId read_boot_id(const std::string& path);

class PosixDisk final : public Disk {
 public:
  /// With a thread, and nothing past the cache. The reactor outlives the disk.
  explicit PosixDisk(Reactor& reactor);
  PosixDisk(std::shared_ptr<DiskEngine> engine, DirectIo direct_io);
  /// Waits for what the engine has begun; the rest is not done.
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
