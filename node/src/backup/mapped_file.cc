#include "backup/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ramcloud {
namespace {

Status failed(const std::string& path, const char* what) {
  const int error = errno;
  return {error == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError,
          fmt::format("{}: cannot {}: {}", path, what, std::strerror(error))};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(failed(path, "open"));
  struct stat about{};
  if (::fstat(fd, &about) != 0) {
    const Status status = failed(path, "stat");
    ::close(fd);
    return fail(status);
  }
  if (!S_ISREG(about.st_mode) && !S_ISBLK(about.st_mode)) {
    ::close(fd);
    return fail(StatusCode::kIoError,
                fmt::format("{}: is neither a regular file nor a block device", path));
  }
  const auto size = S_ISREG(about.st_mode)
                        ? static_cast<size_t>(about.st_size)
                        : static_cast<size_t>(std::max<off_t>(0, ::lseek(fd, 0, SEEK_END)));
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (data == MAP_FAILED) {
      const Status status = failed(path, "map");
      ::close(fd);
      return fail(status);
    }
  }
  ::close(fd);
  return MappedFile(data, size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace ramcloud
