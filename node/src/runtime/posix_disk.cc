#include "runtime/posix_disk.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "runtime/read_speed.h"
#include "runtime/unique_fd.h"

namespace ramcloud {
namespace {

/// Bytes of a block of a direct write. It is a multiple of every device's sector, and a page, so
/// that no block is half in the page cache.
constexpr uint32_t kDirectBlock = 4096;

Status io_error(const std::string& what, const std::string& path) {
  return disk_error(errno, what, path);
}

class PosixFile final : public File {
 public:
  PosixFile(std::shared_ptr<OpenFile> file, uint64_t size, std::weak_ptr<DiskEngine> engine)
      : file_(std::move(file)), size_(size), engine_(std::move(engine)) {}
  ~PosixFile() override { ::flock(fd(), LOCK_UN); }  // jobs in flight may keep it open for a moment

  uint64_t size() const override { return size_; }

  Status write(uint64_t offset, ByteView bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return io_error("write", file_->path);
      bytes.remove_prefix(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return {};
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
    add<AllocateJob>(std::move(done), offset, length);
  }

  void sync(std::function<void(Status)> done) override { add<SyncJob>(std::move(done)); }

  void read_beside(uint64_t offset, std::span<char> to, std::shared_ptr<void> keep,
                   std::function<void(Status)> done) override {
    add<ReadJob>(std::move(done), offset, to, std::move(keep));
  }

  uint32_t direct_block() const override { return file_->direct.valid() ? kDirectBlock : 0; }

  void write_direct(std::span<const DirectWrite> writes, std::shared_ptr<const void> keep,
                    std::function<void(Status)> done) override {
    if (!file_->direct.valid()) return File::write_direct(writes, std::move(keep), std::move(done));
    add<WriteJob>(std::move(done), writes, std::move(keep));
  }

 private:
  int fd() const { return file_->fd.get(); }
  template <typename Job, typename... Arguments>
  void add(std::function<void(Status)> done, Arguments&&... arguments) {
    // If the disk is destroyed, a file only supports operations that do not wait.
    if (const auto engine = engine_.lock()) {
      engine->add(std::make_shared<Job>(file_, alive_, std::move(done),
                                        std::forward<Arguments>(arguments)...));
    }
  }
  std::shared_ptr<OpenFile> file_;
  uint64_t size_;
  std::weak_ptr<DiskEngine> engine_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

PosixDisk::PosixDisk(Reactor& reactor) : PosixDisk(make_disk_threads(reactor), DirectIo::kNever) {}

PosixDisk::PosixDisk(std::shared_ptr<DiskEngine> engine, DirectIo direct_io)
    : engine_(std::move(engine)), direct_io_(direct_io) {}

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
  // A block device cannot be resized, and its st_size is 0.
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
  if (direct_io_ != DirectIo::kNever) {
    if (Status opened = open_direct(*file); !opened.ok()) {
      if (direct_io_ == DirectIo::kAlways) return fail(std::move(opened));
      log_info("disk.direct_unavailable", {{"file", path}, {"error", opened.message()}});
    }
  }
  return std::make_unique<PosixFile>(std::move(file), actual, engine_);
}

/// Opens a second descriptor with O_DIRECT. Some file systems refuse it at once, others only when
/// it is used.
Status PosixDisk::open_direct(OpenFile& file) const {
  const auto refused = [&file](const std::string& why) -> Status {
    return {StatusCode::kUnsupported,
            "'" + file.path + "' cannot be written past the cache: " + why};
  };
  UniqueFd fd(::open(file.path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!fd.valid()) return refused(std::strerror(errno));
  int sector = 0;
  if (::ioctl(fd.get(), BLKSSZGET, &sector) == 0 &&
      (sector <= 0 || kDirectBlock % static_cast<uint32_t>(sector) != 0)) {
    return refused("its sectors are of " + std::to_string(sector) + " bytes");
  }
  alignas(kDirectBlock) char block[kDirectBlock];
  const ssize_t n = ::pread(fd.get(), block, sizeof block, 0);
  if (n < 0) return refused(std::strerror(errno));
  // Try a direct write with the bytes that are there. This is safe because we hold the lock on the
  // file.
  const iovec same{block, sizeof block};
  if (n == sizeof block && ::pwritev2(fd.get(), &same, 1, 0, RWF_DSYNC) != n) {
    return refused(std::strerror(errno));
  }
  file.direct = std::move(fd);
  return {};
}

BootId PosixDisk::boot_id() const {
  return read_boot_id("/proc/sys/kernel/random/boot_id");
}

BootId read_boot_id(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  std::erase(text, '-');
  BootId id{};
  if (text.size() != 2 * id.size()) return {};
  for (size_t i = 0; i < id.size(); ++i) {
    const char* first = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, id[i], 16);
    if (error != std::errc() || end != first + 2) return {};
  }
  return id;
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
  // A created directory is an entry of its parent, which must be synced.
  std::vector<std::string> changed;
  for (auto at = std::filesystem::absolute(path, error); !error && !exists(at.string());
       at = at.parent_path()) {
    if (at == at.parent_path()) break;
    changed.push_back(at.parent_path().string());
  }
  if (!error) std::filesystem::create_directories(path, error);
  if (error) return {StatusCode::kIoError, "make directory '" + path + "': " + error.message()};
  for (const std::string& directory : changed) RC_RETURN_IF_ERROR(sync_directory(directory));
  return {};
}

Status PosixDisk::sync_directory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return io_error("open directory", path);
  // Some file systems do not support this; then there is nothing to wait for.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return io_error("sync directory", path);
  return {};
}

}  // namespace ramcloud
