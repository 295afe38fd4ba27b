#include "runtime/read_speed.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "runtime/unique_fd.h"

namespace ramcloud {
namespace {

constexpr size_t kChunk = 1u << 20;
constexpr int kChunks = 8;
/// Measuring stops after this time, for slow devices.
constexpr Duration kEnough = std::chrono::milliseconds(500);

struct Freer {
  void operator()(char* bytes) const { std::free(bytes); }
};
using Buffer = std::unique_ptr<char, Freer>;

/// Creates a nameless file of kChunks chunks on the device.
UniqueFd make_file(const std::string& directory, char* bytes) {
  UniqueFd fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid()) return fd;
  std::memset(bytes, 0x5a, kChunk);
  for (int i = 0; i < kChunks; ++i) {
    if (::write(fd.get(), bytes, kChunk) != static_cast<ssize_t>(kChunk)) return UniqueFd();
  }
  if (::fdatasync(fd.get()) != 0) return UniqueFd();
  return fd;
}

}  // namespace

uint64_t measure_device_read_speed(const std::string& path, bool is_device) {
  const Buffer buffer(static_cast<char*>(std::aligned_alloc(4096, kChunk)));
  if (!buffer) return 0;
  const UniqueFd file = is_device ? UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))
                                  : make_file(path, buffer.get());
  if (!file.valid()) return 0;
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags < 0 || ::fcntl(file.get(), F_SETFL, flags | O_DIRECT) != 0) return 0;
  SystemClock clock;
  const Time began = clock.now();
  uint64_t bytes = 0;
  for (int i = 0; i < kChunks && clock.now() - began < kEnough; ++i) {
    const ssize_t n = ::pread(file.get(), buffer.get(), kChunk, static_cast<off_t>(bytes));
    if (n <= 0) break;
    bytes += static_cast<uint64_t>(n);
  }
  const double seconds = std::chrono::duration<double>(clock.now() - began).count();
  return bytes == 0 || seconds <= 0 ? 0
                                    : static_cast<uint64_t>(static_cast<double>(bytes) / seconds);
}

}  // namespace ramcloud
