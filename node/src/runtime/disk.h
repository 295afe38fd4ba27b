// Files behind an interface: real ones, or simulated ones that lose unsynced bytes when the power
// goes. write() writes to the page cache, which survives the death of the process; after sync() the
// bytes survive a loss of power. If a file can be written past the page cache, write_direct() does
// both at once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace ramcloud {

/// Names one run of a host's kernel, from its start to the next; all zero: not known.
using BootId = std::array<uint8_t, 16>;

/// Bytes to write at an offset of a file.
struct DirectWrite {
  uint64_t offset = 0;
  ByteView bytes;
};

class File {
 public:
  /// Operations in flight may still take effect, but their `done` is not called any more.
  virtual ~File() = default;
  virtual uint64_t size() const = 0;
  /// Writes all bytes to the page cache. NO_SPACE if the disk is full, otherwise IO_ERROR.
  virtual Status write(uint64_t offset, ByteView bytes) = 0;
  /// Reads exactly `size` bytes into `to`; IO_ERROR when the file ends before.
  virtual Status read(uint64_t offset, void* to, size_t size) = 0;
  /// Makes sure that [offset, offset + length) has space on the disk and reads as zero, then calls
  /// `done` on the owner's reactor: a busy disk may take seconds for it. NO_SPACE when it is full.
  /// Nothing else may touch the range meanwhile.
  virtual void allocate_zeroed(uint64_t offset, uint64_t length,
                               std::function<void(Status)> done) = 0;
  /// Reads exactly as many bytes as `to` has, without blocking the reactor, and calls `done` on it.
  /// Concurrent writes may be included or not. `keep` owns the buffer; it is released after `done`,
  /// or after the file is destroyed. The default implementation reads at once.
  virtual void read_beside(uint64_t offset, std::span<char> to, std::shared_ptr<void> keep,
                           std::function<void(Status)> done) {
    const Status status = read(offset, to.data(), to.size());
    done(status);
    keep.reset();
  }
  /// Calls `done`, on the owner's reactor, when everything written before is on the device. One
  /// sync serves all that wait at the same time.
  virtual void sync(std::function<void(Status)> done) = 0;

  /// Offsets, lengths and addresses of direct writes must be multiples of this; 0: this file does
  /// not support them.
  virtual uint32_t direct_block() const { return 0; }
  /// Writes past the cache and calls `done`, on the owner's reactor, when all of it is on the
  /// device. Until then each sector may have been written or not. The writes are sorted by offset
  /// and do not overlap. Nothing else may touch their blocks meanwhile, and bytes that write() wrote
  /// there before must have been synced. `keep` owns the bytes, which must not change until it is released, perhaps after
  /// the file was destroyed.
  virtual void write_direct(std::span<const DirectWrite> writes, std::shared_ptr<const void> keep,
                            std::function<void(Status)> done) {
    (void)writes;
    keep.reset();
    done({StatusCode::kUnsupported, "this file is not written past the cache"});
  }
};

class Disk {
 public:
  virtual ~Disk() = default;
  /// Opens or creates a file of this size (sparse until allocated). An exclusive lock is held while
  /// it is open: a second opener gets UNAVAILABLE naming the file.
  virtual Result<std::unique_ptr<File>> open(const std::string& path, uint64_t size) = 0;
  virtual bool exists(const std::string& path) = 0;
  /// Size of the block device at `path`; 0 if it is not a block device.
  virtual uint64_t device_bytes(const std::string& path) = 0;
  /// How fast the device below a directory (or the block device) reads, in bytes a second, by
  /// reading some MiB past the cache; takes a fraction of a second. 0: could not be measured. Call
  /// it before any file there is open.
  virtual uint64_t measure_read_speed(const std::string& path) = 0;
  /// Creates the directory and its missing parents. When OK, they survive a power cut.
  virtual Status make_directories(const std::string& path) = 0;
  /// When OK, the names of the files in the directory survive a power cut. Waits for the device.
  virtual Status sync_directory(const std::string& path) {
    (void)path;
    return {};
  }
  /// Identifies the present boot of the host. If it has changed, unsynced writes may be lost.
  virtual BootId boot_id() const { return {}; }
  /// The name of the engine that waits for the device (a thread, or io_uring), for metrics.
  virtual const char* engine() const { return "memory"; }
};

}  // namespace ramcloud
