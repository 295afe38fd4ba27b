#include "base/mapping.h"

#include <linux/mman.h>
#include <sys/mman.h>

#include <bit>
#include <cerrno>

#include "base/bytes.h"

namespace ramcloud {

Mapping::~Mapping() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(huge_pages_, other.huge_pages_);
  return *this;
}

bool Mapping::map(uint64_t bytes, bool try_huge_pages) {
  // One huge page more, so that the used part can begin at a multiple of it.
  const uint64_t length = bytes + kHugePageBytes;
  void* const mapping = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return false;
  mapping_ = static_cast<char*>(mapping);
  mapping_bytes_ = length;
  data_ = reinterpret_cast<char*>(align_up(reinterpret_cast<uint64_t>(mapping_), kHugePageBytes));
  size_ = bytes;
  huge_pages_ = try_huge_pages && madvise(data_, size_, MADV_HUGEPAGE) == 0;
  return true;
}

bool Mapping::map_reserved(uint64_t bytes, uint64_t page_bytes) {
  const uint64_t length = align_up(bytes, page_bytes);
  const int page_size = std::countr_zero(page_bytes) << MAP_HUGE_SHIFT;
  void* const mapping = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | page_size, -1, 0);
  if (mapping == MAP_FAILED) return false;
  mapping_ = data_ = static_cast<char*>(mapping);
  mapping_bytes_ = size_ = length;
  huge_pages_ = true;
  return madvise(mapping, length, MADV_POPULATE_WRITE) == 0;
}

bool Mapping::reserve(uint64_t bytes) {
  const uint64_t length = bytes + kHugePageBytes;
  // PROT_NONE, so that it does not count as committed memory.
  void* const mapping =
      mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return false;
  mapping_ = static_cast<char*>(mapping);
  mapping_bytes_ = length;
  data_ = reinterpret_cast<char*>(align_up(reinterpret_cast<uint64_t>(mapping_), kHugePageBytes));
  size_ = bytes;
  return true;
}

bool Mapping::open(uint64_t from, uint64_t bytes, bool try_huge_pages) {
  if (mprotect(data_ + from, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  huge_pages_ = try_huge_pages && madvise(data_ + from, bytes, MADV_HUGEPAGE) == 0;
  return true;
}

bool Mapping::bring(uint64_t from, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(data_ + from, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;  // EINVAL: not supported by this kernel
#endif
  constexpr uint64_t kPageBytes = 4096;
  for (uint64_t at = from; at < from + bytes; at += kPageBytes) {
    const_cast<volatile char*>(data_)[at] = 0;
  }
  return true;
}

bool Mapping::give_back(uint64_t from, uint64_t bytes) {
#ifdef MADV_DONTNEED_LOCKED
  if (madvise(data_ + from, bytes, MADV_DONTNEED_LOCKED) == 0) return true;
#endif
  if (madvise(data_ + from, bytes, MADV_DONTNEED) == 0) return true;
  return munlock(data_ + from, bytes) == 0 && madvise(data_ + from, bytes, MADV_DONTNEED) == 0;
}

void Mapping::touch() {
#ifdef MADV_POPULATE_WRITE
  if (madvise(data_, size_, MADV_POPULATE_WRITE) == 0) return;
#endif
  constexpr uint64_t kPageBytes = 4096;
  for (uint64_t at = 0; at < size_; at += kPageBytes) const_cast<volatile char*>(data_)[at] = 0;
}

}  // namespace ramcloud
