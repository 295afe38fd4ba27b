// A file's bytes for reading, without a lock and without Disk: for tools that read a volume whose
// server is stopped or running.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace ramcloud {

class MappedFile {
 public:
  /// NOT_FOUND or IO_ERROR, naming the file. The file must not shrink while it is mapped (frames
  /// files never do).
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  ByteView bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ramcloud
