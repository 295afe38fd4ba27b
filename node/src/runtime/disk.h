// Files behind an interface: real ones, or simulated ones that lose unsynced bytes when the
// power goes. Writing goes to the operating system's cache (it survives the death of the process);
// sync() makes it survive the loss of power. Where a file can be written past the cache,
// write_direct() does both at once.
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

/// Bytes for a place of a file.
struct DirectWrite {
  uint64_t offset = 0;
  ByteView bytes;
};

class File {
 public:
  /// Operations in flight may still take effect; their `done` is not called any more.
  virtual ~File() = default;
  virtual uint64_t size() const = 0;
  /// Writes all of it, into the cache. NO_SPACE when the disk is full, IO_ERROR else.
  virtual Status write(uint64_t offset, ByteView bytes) = 0;
  /// Reads exactly `size` bytes into `to`; IO_ERROR when the file ends before.
  virtual Status read(uint64_t offset, void* to, size_t size) = 0;
  /// Makes sure that [offset, offset + length) has space on the disk and reads as zero, then calls
  /// `done` on the owner's reactor: a busy disk may take seconds for it. NO_SPACE when it is full.
  /// Nothing else may touch the range meanwhile.
  virtual void allocate_zeroed(uint64_t offset, uint64_t length,
                               std::function<void(Status)> done) = 0;
  /// Reads exactly as many bytes as `to` has, beside the reactor, and calls `done` there. What is
  /// written meanwhile may be in it or not. `keep` owns the bytes; it is let go after `done`, or
  /// after the file is destroyed. The default reads at once.
  virtual void read_beside(uint64_t offset, std::span<char> to, std::shared_ptr<void> keep,
                           std::function<void(Status)> done) {
    const Status status = read(offset, to.data(), to.size());
    done(status);
    keep.reset();
  }
  /// Calls `done`, on the owner's reactor, when everything written before is on the device. Syncs
  /// that wait together are done by one.
  virtual void sync(std::function<void(Status)> done) = 0;

  /// What offsets, lengths and addresses of direct writes must be multiples of; 0: there are none
  /// for this file.
  virtual uint32_t direct_block() const { return 0; }
  /// Writes past the cache and calls `done`, on the owner's reactor, when all of it is on the
  /// device. Until then each sector may be there or not. The writes are by rising offset and do not
  /// overlap; nothing else may touch their blocks meanwhile, nor write() them at any time. `keep`
  /// owns the bytes; they must not change until it is let go, perhaps after the file was deleted.
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
  /// Size of the block device at `path`; 0 if it is none.
  virtual uint64_t device_bytes(const std::string& path) = 0;
  /// How fast the device below a directory (or the block device) reads, in bytes a second, by
  /// reading some MiB past the cache; takes a fraction of a second. 0: could not be measured.
  /// Before anything else of it is open.
  virtual uint64_t measure_read_speed(const std::string& path) = 0;
  /// Makes the directory and its missing parents. When OK, they survive a power cut.
  virtual Status make_directories(const std::string& path) = 0;
  /// When OK, the names of the files in the directory survive a power cut. Waits for the device.
  virtual Status sync_directory(const std::string& path) {
    (void)path;
    return {};
  }
  /// The boot of the host whose page cache holds what was written. If it has changed, what was not
  /// synced may be lost.
  virtual BootId boot_id() const { return {}; }
  /// The name of the engine that waits for the device (a thread, or io_uring), for metrics.
  virtual const char* engine() const { return "memory"; }
};

}  // namespace ramcloud
