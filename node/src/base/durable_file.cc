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

Status failed(const char* what, const std::string& path) {
  return {StatusCode::kIoError, fmt::format("{} '{}': {}", what, path, std::strerror(errno))};
}

}  // namespace

Status replace_file(const std::string& path, std::string_view bytes) {
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
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    Status why = failed("cannot replace", path);
    (void)std::remove(temporary.c_str());
    return why;
  }
  // The name is on the disk when its folder is.
  std::string folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const File parent(folder, O_RDONLY | O_DIRECTORY);
  if (!parent.valid() || !parent.sync()) return failed("cannot sync the folder of", path);
  return {};
}

}  // namespace ramcloud
