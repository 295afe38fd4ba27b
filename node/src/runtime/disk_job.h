// An operation of a file that waits for the device, as a list of system calls. Engines
// (disk_engine.h) make the calls and know nothing of files; jobs know nothing of threads and rings.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/disk.h"
#include "runtime/unique_fd.h"

namespace ramcloud {

/// A file and its descriptors, shared with its jobs in flight, so that they stay valid.
struct OpenFile {
  UniqueFd fd;
  UniqueFd direct;  // for writing past the page cache; may be empty
  std::string path;
};

/// NO_SPACE or IO_ERROR: "write 'PATH': No space left on device".
Status disk_error(int error, const std::string& what, const std::string& path);

/// One system call.
struct DiskCall {
  enum class Kind : uint8_t { kSync, kAllocate, kWrite, kRead };
  Kind kind = Kind::kSync;
  int fd = -1;
  int mode = 0;  // kAllocate: fallocate's; kWrite: pwritev2's flags
  uint64_t offset = 0;
  uint64_t length = 0;               // kAllocate
  std::span<const iovec> vectors{};  // kWrite, kRead; they belong to the job
  size_t job_index = 0;              // the job's own
};

class DiskJob {
 public:
  /// `alive` expires with the File; checked on the reactor's thread only.
  DiskJob(std::shared_ptr<OpenFile> file, std::weak_ptr<bool> alive,
          std::function<void(Status)> done);
  virtual ~DiskJob() = default;
  DiskJob(const DiskJob&) = delete;
  DiskJob& operator=(const DiskJob&) = delete;

  /// The next call that may begin now, in addition to those in flight. False: there is none; if no
  /// call is in flight, the job is over.
  bool next(DiskCall& call);
  /// The call returned this, or failed with -result.
  void ended(const DiskCall& call, int64_t result);
  bool over() const { return over_; }

  /// True: at most one such job of a file is in flight at a time. When it begins it also completes
  /// queued ones, with their waiters.
  virtual bool shared() const { return false; }
  void absorb(DiskJob& other);
  const OpenFile& file() const { return *file_; }

  /// Calls the waiters. On the reactor's thread.
  void report();

 protected:
  virtual bool next_call(DiskCall& call) = 0;
  /// Not called for EINTR, nor for the first EAGAINs: then the call is repeated.
  virtual void call_ended(const DiskCall& call, int64_t result) = 0;
  /// No further calls begin.
  void failed(int error, const char* what);

 private:
  struct Waiter {
    std::weak_ptr<bool> alive;
    std::function<void(Status)> done;
  };
  std::shared_ptr<OpenFile> file_;
  std::vector<Waiter> waiters_;
  std::vector<DiskCall> again_;  // interrupted
  Status status_;
  uint32_t under_way_ = 0;
  uint32_t times_busy_ = 0;
  bool over_ = false;
};

/// fdatasync().
class SyncJob final : public DiskJob {
 public:
  using DiskJob::DiskJob;
  bool shared() const override { return true; }

 protected:
  bool next_call(DiskCall& call) override;
  void call_ended(const DiskCall& call, int64_t result) override;

 private:
  bool begun_ = false;
};

/// Allocates space that reads as zero, in the cheapest way that the file system supports.
class AllocateJob final : public DiskJob {
 public:
  AllocateJob(std::shared_ptr<OpenFile> file, std::weak_ptr<bool> alive,
              std::function<void(Status)> done, uint64_t offset, uint64_t length);

 protected:
  bool next_call(DiskCall& call) override;
  void call_ended(const DiskCall& call, int64_t result) override;

 private:
  enum class Way : uint8_t { kZeroRange, kPunchHole, kFillHole, kWriteZeros, kNone };
  uint64_t offset_;
  uint64_t length_;
  uint64_t written_ = 0;  // zeros
  Way way_ = Way::kZeroRange;
  bool calling_ = false;
  iovec zeros_{};
};

/// Writes past the page cache and to the device. One call writes adjacent bytes; all calls run in
/// parallel. A single call syncs what it writes; several are followed by one sync.
class WriteJob final : public DiskJob {
 public:
  WriteJob(std::shared_ptr<OpenFile> file, std::weak_ptr<bool> alive,
           std::function<void(Status)> done, std::span<const DirectWrite> writes,
           std::shared_ptr<const void> keep);

 protected:
  bool next_call(DiskCall& call) override;
  void call_ended(const DiskCall& call, int64_t result) override;

 private:
  struct Run {
    uint64_t offset = 0;
    size_t first = 0;  // of vectors_
    size_t count = 0;
  };
  /// Accounts for the bytes that were written; false if some remain.
  bool advance(Run& run, uint64_t bytes);

  std::shared_ptr<const void> keep_;
  std::vector<iovec> vectors_;
  std::vector<Run> runs_;
  std::vector<size_t> to_begin_;  // runs
  size_t unwritten_ = 0;          // runs
  bool sync_begun_ = false;
};

/// Reads exactly so many bytes, through the page cache.
class ReadJob final : public DiskJob {
 public:
  ReadJob(std::shared_ptr<OpenFile> file, std::weak_ptr<bool> alive,
          std::function<void(Status)> done, uint64_t offset, std::span<char> to,
          std::shared_ptr<void> keep);

 protected:
  bool next_call(DiskCall& call) override;
  void call_ended(const DiskCall& call, int64_t result) override;

 private:
  std::shared_ptr<void> keep_;
  uint64_t offset_;
  iovec rest_;
  bool calling_ = false;
};

}  // namespace ramcloud
