#include "base/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace ramcloud {
namespace {

class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() { (void)close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool valid() const { return fd_ >= 0; }
  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  bool sync() const { return ::fsync(fd_) == 0; }
  bool close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

Status sync_file(const std::string& path, int flags) {
  const File file(path, flags);
  if (file.valid() && file.sync()) return {};
  return {StatusCode::kIoError, fmt::format("cannot sync '{}': {}", path, std::strerror(errno))};
}

Status failed(const char* what, const std::string& path) {
  return {StatusCode::kIoError, fmt::format("{} '{}': {}", what, path, std::strerror(errno))};
}

Status rename_and_sync(const std::string& written, const std::string& path) {
  if (std::rename(written.c_str(), path.c_str()) != 0) {
    Status why = failed("cannot replace", path);
    (void)std::remove(written.c_str());
    return why;
  }
  // Sync the folder, so that the file's name is on the disk.
  const std::string folder = std::filesystem::path(path).parent_path();
  return sync_file(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
}

}  // namespace

Status replace_file(const std::string& path, std::string_view bytes) {
  std::error_code error;
  const auto there = std::filesystem::status(path, error);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return {StatusCode::kIoError, fmt::format("'{}' is not a plain file", path)};
  }
  const std::string temporary = path + ".tmp";
  {
    File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.valid()) return failed("cannot create", temporary);
    if (!file.write(bytes) || !file.sync() || !file.close()) {
      Status why = failed("cannot write", temporary);
      (void)std::remove(temporary.c_str());
      return why;
    }
  }
  return rename_and_sync(temporary, path);
}

Status replace_file_by(const std::string& path, const std::string& written) {
  if (Status synced = sync_file(written, O_RDONLY); !synced.ok()) {
    (void)std::remove(written.c_str());
    return synced;
  }
  return rename_and_sync(written, path);
}

}  // namespace ramcloud
