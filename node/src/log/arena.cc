#include "log/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/logging.h"
#include "log/segment.h"

namespace ramcloud::log {

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
      log_info("log.memory_not_locked", {{"bytes", usable}, {"error", strerror(errno)}});
    }
  }
  if (options.prefault && !locked_) mapping_.touch();

  owners_ = std::make_unique<Owner[]>(total_seglets_);
  free_.resize(total_seglets_);
  for (uint32_t i = 0; i < total_seglets_; ++i) free_[i] = total_seglets_ - 1 - i;
}

void Arena::map_ordinary(uint64_t usable, bool try_huge_pages) {
  if (!mapping_.map(usable, try_huge_pages)) {
    fatal("log memory cannot be mapped", {{"bytes", usable}, {"error", strerror(errno)}});
  }
  base_ = mapping_.data();
  if (try_huge_pages && !mapping_.huge_pages()) {
    log_info("log.no_huge_pages", {{"bytes", usable}, {"error", strerror(errno)}});
  }
}

/// No pages are taken from elsewhere, so too few are an error.
void Arena::map_reserved(uint64_t usable, uint64_t page_bytes) {
  if (!mapping_.map_reserved(usable, page_bytes)) {
    fatal("the log's memory is not available in huge pages: too few are set aside, or allowed",
          {{"pages", align_up(usable, page_bytes) / page_bytes},
           {"page_bytes", page_bytes},
           {"error", strerror(errno)}});
  }
  base_ = mapping_.data();
}

Arena::~Arena() = default;

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
