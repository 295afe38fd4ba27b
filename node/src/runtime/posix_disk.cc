#include "runtime/posix_disk.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>

#include "runtime/read_speed.h"
#include "runtime/thread.h"
#include "runtime/unique_fd.h"

namespace ramcloud {
namespace {

Status io_error(const std::string& what, const std::string& path) {
  const int error = errno;
  const StatusCode code =
      error == ENOSPC || error == EDQUOT ? StatusCode::kNoSpace : StatusCode::kIoError;
  return {code, what + " '" + path + "': " + std::strerror(error)};
}

/// Shared by a file and what is under way for it, so that a closed file's descriptor stays valid.
struct OpenFile {
  UniqueFd fd;
  std::string path;
};

Status write_all(const OpenFile& file, uint64_t offset, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t n =
        ::pwrite(file.fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", file.path);
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status allocate_zeros(const OpenFile& file, uint64_t offset, uint64_t length) {
  const int fd = file.fd.get();
  const auto from = static_cast<off_t>(offset);
  const auto size = static_cast<off_t>(length);
  if (::fallocate(fd, FALLOC_FL_ZERO_RANGE, from, size) == 0) return {};
  if (errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS) {
    // tmpfs and others: a hole reads as zero, and is then given its space.
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, size) == 0 &&
        ::fallocate(fd, 0, from, size) == 0) {
      return {};
    }
  }
  if (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS) {
    return io_error("allocate", file.path);
  }
  static constexpr char kZeros[64 << 10] = {};
  for (uint64_t done = 0; done < length;) {
    const uint64_t n = std::min<uint64_t>(sizeof kZeros, length - done);
    RC_RETURN_IF_ERROR(write_all(file, offset + done, {kZeros, n}));
    done += n;
  }
  return {};
}

Status sync_file(const OpenFile& file) {
  return ::fdatasync(file.fd.get()) == 0 ? Status() : io_error("sync", file.path);
}

}  // namespace

/// The thread that waits for devices, and its queue. All syncs of one file that wait are done by
/// one fdatasync().
struct PosixDisk::Worker {
  struct Job {
    std::shared_ptr<OpenFile> file;
    std::weak_ptr<bool> alive;  // the File; looked at on the reactor's thread only
    std::function<void(Status)> done;
    uint64_t offset = 0;  // of an allocation
    uint64_t length = 0;  // 0: this is a sync
  };

  explicit Worker(Reactor& r) : reactor(r), thread("disk", [this] { serve(); }) {}
  ~Worker() {
    {
      const std::lock_guard guard(mutex);
      stopping = true;
      changed.notify_one();
    }
    thread.join();
  }

  void add(Job job) {
    const std::lock_guard guard(mutex);
    jobs.push_back(std::move(job));
    changed.notify_one();
  }

  /// The first job, and if it is a sync all others of its file. The mutex is held.
  std::deque<Job> take() {
    std::deque<Job> batch;
    batch.push_back(std::move(jobs.front()));
    jobs.pop_front();
    if (batch.front().length > 0) return batch;
    std::deque<Job> rest;
    for (auto& job : jobs) {
      const bool together = job.length == 0 && job.file == batch.front().file;
      (together ? batch : rest).push_back(std::move(job));
    }
    jobs = std::move(rest);
    return batch;
  }

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || !jobs.empty(); });
      if (stopping) return;
      std::deque<Job> batch = take();
      lock.unlock();
      const Job& first = batch.front();
      const Status status = first.length > 0
                                ? allocate_zeros(*first.file, first.offset, first.length)
                                : sync_file(*first.file);
      for (auto& job : batch) {
        reactor.post([job = std::move(job), status] {
          if (!job.alive.expired()) job.done(status);
        });
      }
      batch.clear();
      lock.lock();
    }
  }

  Reactor& reactor;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  bool stopping = false;
  Thread thread;  // last: starts when the rest is there
};

namespace {

class PosixFile final : public File {
 public:
  /// Gives the worker a job: an allocation of [offset, offset + length), a sync if length is 0.
  using Later = std::function<void(std::shared_ptr<OpenFile>, std::weak_ptr<bool>,
                                   std::function<void(Status)>, uint64_t offset, uint64_t length)>;
  PosixFile(std::shared_ptr<OpenFile> file, uint64_t size, Later later)
      : file_(std::move(file)), size_(size), later_(std::move(later)) {}
  ~PosixFile() override { ::flock(fd(), LOCK_UN); }  // jobs under way may keep it open a little

  uint64_t size() const override { return size_; }

  Status write(uint64_t offset, ByteView bytes) override {
    return write_all(*file_, offset, bytes);
  }

  Status read(uint64_t offset, void* to, size_t size) override {
    auto* target = static_cast<char*>(to);
    while (size > 0) {
      const ssize_t n = ::pread(fd(), target, size, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return io_error("read", file_->path);
      if (n == 0) {
        return {StatusCode::kIoError,
                "read '" + file_->path + "': ends before offset " + std::to_string(offset + size)};
      }
      target += n;
      size -= static_cast<size_t>(n);
      offset += static_cast<uint64_t>(n);
    }
    return {};
  }

  void allocate_zeroed(uint64_t offset, uint64_t length,
                       std::function<void(Status)> done) override {
    later_(file_, alive_, std::move(done), offset, length);
  }

  void sync(std::function<void(Status)> done) override {
    later_(file_, alive_, std::move(done), 0, 0);
  }

 private:
  int fd() const { return file_->fd.get(); }
  std::shared_ptr<OpenFile> file_;
  uint64_t size_;
  Later later_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

PosixDisk::PosixDisk(Reactor& reactor)
    : reactor_(reactor), worker_(std::make_shared<Worker>(reactor_)) {}

PosixDisk::~PosixDisk() = default;

Result<std::unique_ptr<File>> PosixDisk::open(const std::string& path, uint64_t size) {
  auto file = std::make_shared<OpenFile>();
  file->path = path;
  file->fd = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file->fd.valid()) return fail(io_error("open", path));
  if (::flock(file->fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail(io_error("lock", path));
    return fail(StatusCode::kUnavailable, "file '" + path + "' is in use by another process");
  }
  struct stat info{};
  if (::fstat(file->fd.get(), &info) != 0) return fail(io_error("stat", path));
  uint64_t actual = static_cast<uint64_t>(info.st_size);
  // A block device has the size it has, and st_size is 0.
  if (S_ISBLK(info.st_mode)) {
    actual = static_cast<uint64_t>(std::max<off_t>(0, ::lseek(file->fd.get(), 0, SEEK_END)));
    if (actual < size) {
      return fail(StatusCode::kNoSpace, "device '" + path + "' has " + std::to_string(actual) +
                                            " bytes, wanted are " + std::to_string(size));
    }
  } else if (actual < size) {
    if (::ftruncate(file->fd.get(), static_cast<off_t>(size)) != 0) {
      return fail(io_error("resize", path));
    }
    actual = size;
  }
  return std::make_unique<PosixFile>(
      std::move(file), actual,
      [weak = std::weak_ptr(worker_)](auto opened, auto alive, auto done, uint64_t offset,
                                      uint64_t length) {
        const auto worker = weak.lock();
        if (worker == nullptr) return;
        worker->add({std::move(opened), std::move(alive), std::move(done), offset, length});
      });
}

bool PosixDisk::exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

uint64_t PosixDisk::device_bytes(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISBLK(info.st_mode)) return 0;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return 0;
  return static_cast<uint64_t>(std::max<off_t>(0, ::lseek(fd.get(), 0, SEEK_END)));
}

uint64_t PosixDisk::measure_read_speed(const std::string& path) {
  return measure_device_read_speed(path, device_bytes(path) > 0);
}

Status PosixDisk::make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return {};
  return {StatusCode::kIoError, "make directory '" + path + "': " + error.message()};
}

}  // namespace ramcloud
