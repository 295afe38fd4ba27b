#include "log/arena.h"

#include <linux/mman.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/logging.h"
#include "log/segment.h"

namespace ramcloud::log {
namespace {

constexpr uint64_t kHugePageBytes = 2u << 20;

void prefault_pages(char* base, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(base, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  constexpr uint64_t kPageBytes = 4096;
  for (uint64_t at = 0; at < bytes; at += kPageBytes) {
    const_cast<volatile char*>(base)[at] = 0;
  }
}

}  // namespace

Arena::Arena(uint64_t bytes, Options options) {
  const uint64_t segments = std::max<uint64_t>(bytes / kSegmentBytes, 1);
  total_seglets_ = static_cast<uint32_t>(segments * kSegletsPerSegment);
  const uint64_t usable = segments * kSegmentBytes;
  if (options.reserved_page_bytes != 0) {
    map_reserved(usable, options.reserved_page_bytes);
  } else {
    map_ordinary(usable, options.try_huge_pages);
  }
  if (options.try_lock) {
    locked_ = mlock(base_, usable) == 0;
    if (!locked_) {
      log_info("log memory not locked", {{"bytes", usable}, {"error", strerror(errno)}});
    }
  }
  if (options.prefault && !locked_) prefault_pages(base_, usable);

  owners_ = std::make_unique<Owner[]>(total_seglets_);
  free_.resize(total_seglets_);
  for (uint32_t i = 0; i < total_seglets_; ++i) free_[i] = total_seglets_ - 1 - i;
}

void Arena::map_ordinary(uint64_t usable, bool try_huge_pages) {
  // One huge page more, so that the part used can begin at a multiple of it (and of seglets).
  mapping_bytes_ = usable + kHugePageBytes;
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    fatal("log memory cannot be mapped", {{"bytes", usable}, {"error", strerror(errno)}});
  }
  mapping_ = static_cast<char*>(mapping);
  base_ = reinterpret_cast<char*>(align_up(reinterpret_cast<uint64_t>(mapping_), kHugePageBytes));
  if (!try_huge_pages) return;
  huge_pages_ = madvise(base_, usable, MADV_HUGEPAGE) == 0;
  if (!huge_pages_) {
    log_info("log memory without huge pages", {{"bytes", usable}, {"error", strerror(errno)}});
  }
}

/// No pages are taken from elsewhere, so too few are an error. They are touched at once whatever
/// the options say: a container's limit shows only then, and later it would be a SIGBUS.
void Arena::map_reserved(uint64_t usable, uint64_t page_bytes) {
  mapping_bytes_ = align_up(usable, page_bytes);
  const int size = std::countr_zero(page_bytes) << MAP_HUGE_SHIFT;
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size, -1, 0);
  if (mapping == MAP_FAILED || madvise(mapping, mapping_bytes_, MADV_POPULATE_WRITE) != 0) {
    fatal("log memory cannot be had in huge pages: too few are set aside, or allowed",
          {{"pages", mapping_bytes_ / page_bytes},
           {"page_bytes", page_bytes},
           {"error", strerror(errno)}});
  }
  mapping_ = base_ = static_cast<char*>(mapping);
  huge_pages_ = true;
}

Arena::~Arena() {
  munmap(mapping_, mapping_bytes_);
}

uint32_t Arena::free_seglets() const {
  SpinGuard guard(lock_);
  return static_cast<uint32_t>(free_.size());
}

bool Arena::allocate(Segment& segment, std::span<char*> out) {
  SpinGuard guard(lock_);
  if (free_.size() < out.size()) return false;
  for (uint32_t i = 0; i < out.size(); ++i) {
    const uint32_t index = free_.back();
    free_.pop_back();
    owners_[index] = {&segment, i};
    out[i] = base_ + uint64_t{index} * kSegletBytes;
  }
  return true;
}

void Arena::free(std::span<char* const> seglets) {
  SpinGuard guard(lock_);
  for (const char* seglet : seglets) {
    const auto index = static_cast<uint32_t>(static_cast<uint64_t>(seglet - base_) / kSegletBytes);
    owners_[index] = {};
    free_.push_back(index);
  }
}

EntryView Arena::straddling_entry(const char* address) const {
  const Location where = locate(address);
  // Not bytes(): the entry may belong to a group that is copied but waits to be published.
  const SegmentBytes all(where.segment->seglets_.data(), kSegmentBytes);
  return {all, where.offset, all.load_at<EntryHeader>(where.offset)};
}

}  // namespace ramcloud::log
