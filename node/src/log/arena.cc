#include "log/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/logging.h"
#include "log/segment.h"

namespace ramcloud::log {
namespace {

/// Seglets of one slice of continue_resize(): taking memory from the system costs about ten times as
/// much as giving it back.
constexpr uint32_t kBroughtAtOnce = 32;
constexpr uint32_t kGivenBackAtOnce = 128;

uint32_t seglets_in(uint64_t bytes) {
  const uint64_t segments = std::max<uint64_t>(bytes / kSegmentBytes, 1);
  return static_cast<uint32_t>(segments * kSegletsPerSegment);
}

/// Calls f(first, count) for each run of consecutive numbers.
template <typename F>
bool for_each_run(std::vector<uint32_t> seglets, F&& f) {
  std::ranges::sort(seglets);
  for (size_t i = 0; i < seglets.size();) {
    uint32_t count = 1;
    while (i + count < seglets.size() && seglets[i + count] == seglets[i] + count) ++count;
    if (!f(uint64_t{seglets[i]} * kSegletBytes, uint64_t{count} * kSegletBytes)) return false;
    i += count;
  }
  return true;
}

}  // namespace

Arena::Arena(uint64_t bytes, Options options)
    : options_(options),
      most_seglets_(options.reserved_page_bytes != 0
                        ? seglets_in(bytes)
                        : std::max(seglets_in(bytes), seglets_in(options.most_bytes))),
      resizable_(options.reserved_page_bytes == 0) {
  const uint32_t total = seglets_in(bytes);
  const uint64_t usable = uint64_t{total} * kSegletBytes;
  if (options.reserved_page_bytes != 0) {
    map_reserved(usable, options.reserved_page_bytes);
  } else {
    map_ordinary(usable, uint64_t{most_seglets_} * kSegletBytes, options.try_huge_pages);
  }
  if (options.try_lock) {
    locked_ = mlock(base_, usable) == 0;
    if (!locked_) {
      log_info("log.memory_not_locked", {{"bytes", usable}, {"error", strerror(errno)}});
    }
  }
  if (options.prefault && !locked_ && !mapping_.bring(0, usable)) {
    fatal("log memory is not available", {{"bytes", usable}, {"error", strerror(errno)}});
  }

  if (!owners_mapping_.map(uint64_t{most_seglets_} * sizeof(Owner), false)) {
    fatal("the log's table of seglets cannot be mapped", {{"error", strerror(errno)}});
  }
  owners_ = reinterpret_cast<Owner*>(owners_mapping_.data());  // zero: the seglet has no segment
  sizes_ = {.target = total, .limit = total, .held = total, .used = 0};
  opened_ = total;
  free_.resize(total);
  for (uint32_t i = 0; i < total; ++i) free_[i] = total - 1 - i;
}

void Arena::map_ordinary(uint64_t usable, uint64_t most, bool try_huge_pages) {
  if (!mapping_.reserve(most)) {
    fatal("address space for log memory cannot be reserved",
          {{"bytes", most}, {"error", strerror(errno)}});
  }
  if (!mapping_.open(0, usable, try_huge_pages)) {
    fatal("log memory cannot be mapped", {{"bytes", usable}, {"error", strerror(errno)}});
  }
  base_ = mapping_.data();
  if (try_huge_pages && !mapping_.huge_pages()) {
    log_info("log.no_huge_pages", {{"bytes", usable}, {"error", strerror(errno)}});
  }
}

/// Ordinary pages are not used instead, so too few reserved pages are an error.
void Arena::map_reserved(uint64_t usable, uint64_t page_bytes) {
  if (!mapping_.map_reserved(usable, page_bytes)) {
    fatal(
        "log memory is not available in huge pages: too few are reserved, or allowed for this "
        "container",
        {{"pages", align_up(usable, page_bytes) / page_bytes},
         {"page_bytes", page_bytes},
         {"error", strerror(errno)}});
  }
  base_ = mapping_.data();
}

Arena::~Arena() = default;

uint32_t Arena::available() const {
  return sizes_.limit > sizes_.used ? sizes_.limit - sizes_.used : 0;
}

uint32_t Arena::free_seglets() const {
  SpinGuard guard(lock_);
  return available();
}

uint32_t Arena::total_seglets() const {
  SpinGuard guard(lock_);
  return sizes_.limit;
}

bool Arena::allocate(Segment& segment, std::span<char*> out) {
  SpinGuard guard(lock_);
  if (available() < out.size()) return false;
  sizes_.used += static_cast<uint32_t>(out.size());
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
  sizes_.used -= static_cast<uint32_t>(seglets.size());
  for (const char* seglet : seglets) {
    const auto index = static_cast<uint32_t>(static_cast<uint64_t>(seglet - base_) / kSegletBytes);
    owners_[index] = {};
    free_.push_back(index);
  }
}

// ---- resizing

Arena::Sizes Arena::sizes() const {
  SpinGuard guard(lock_);
  return sizes_;
}

void Arena::set_target(uint32_t segments) {
  SpinGuard guard(lock_);
  sizes_.target = std::min(segments * kSegletsPerSegment, most_seglets_);
  if (sizes_.target >= sizes_.limit) sizes_.limit = std::min(sizes_.target, sizes_.held);
  free_.reserve(std::max(sizes_.target, sizes_.held));  // so that free() never allocates
}

void Arena::lower_limit(uint32_t kept) {
  SpinGuard guard(lock_);
  if (sizes_.target >= sizes_.limit) return;
  sizes_.limit = std::max(sizes_.target, std::min(sizes_.limit, sizes_.used + kept));
}

bool Arena::continue_resize() {
  const Sizes now = sizes();
  if (now.held < now.target) return grow(std::min(kBroughtAtOnce, now.target - now.held));
  if (now.held > now.limit) return give_back(std::min(kGivenBackAtOnce, now.held - now.limit));
  return false;
}

/// Seglets that had memory before come first, so that the opened address space stays small.
bool Arena::grow(uint32_t count) {
  std::vector<uint32_t> seglets;
  const uint32_t again = std::min(count, static_cast<uint32_t>(without_pages_.size()));
  seglets.assign(without_pages_.end() - again, without_pages_.end());
  for (uint32_t i = 0; i < count - again; ++i) seglets.push_back(opened_ + i);
  if (!bring(seglets)) return false;
  without_pages_.resize(without_pages_.size() - again);
  opened_ += count - again;
  SpinGuard guard(lock_);
  free_.insert(free_.end(), seglets.rbegin(), seglets.rend());
  sizes_.held += count;
  sizes_.limit = std::min(sizes_.target, sizes_.held);
  return true;
}

/// Gets memory for these seglets. False: the system has none.
bool Arena::bring(const std::vector<uint32_t>& seglets) {
  const bool brought = for_each_run(seglets, [this](uint64_t from, uint64_t bytes) {
    const uint64_t open = uint64_t{opened_} * kSegletBytes;
    if (const uint64_t end = from + bytes; end > open) {
      const uint64_t fresh = std::max(from, open);
      if (!mapping_.open(fresh, end - fresh, options_.try_huge_pages)) return false;
      // What exceeds the limit on locked memory stays unlocked.
      if (locked_) (void)mlock(base_ + fresh, end - fresh);
    }
    return !options_.prefault || mapping_.bring(from, bytes);
  });
  if (!brought) stay_as_it_is(errno);
  return brought;
}

bool Arena::give_back(uint32_t count) {
  std::vector<uint32_t> seglets;
  {
    SpinGuard guard(lock_);
    count = std::min(count, static_cast<uint32_t>(free_.size()));
    seglets.assign(free_.end() - count, free_.end());
    free_.resize(free_.size() - count);
  }
  const bool given = for_each_run(
      seglets, [this](uint64_t from, uint64_t bytes) { return mapping_.give_back(from, bytes); });
  if (!given) {
    log_warn("log.memory_not_given_back",
             {{"bytes", uint64_t{count} * kSegletBytes}, {"error", strerror(errno)}});
  }
  without_pages_.insert(without_pages_.end(), seglets.begin(), seglets.end());
  SpinGuard guard(lock_);
  sizes_.held -= count;
  return count > 0;
}

void Arena::stay_as_it_is(int error) {
  const Sizes now = sizes();
  log_warn("log.memory_not_grown", {{"target_bytes", uint64_t{now.target} * kSegletBytes},
                                    {"held_bytes", uint64_t{now.held} * kSegletBytes},
                                    {"error", strerror(error)}});
  // The target is in whole segments; the limit follows as in any other shrink.
  SpinGuard guard(lock_);
  sizes_.target = sizes_.held / kSegletsPerSegment * kSegletsPerSegment;
}

EntryView Arena::straddling_entry(const char* address) const {
  const Location where = locate(address);
  // Not bytes(): the entry may belong to a group that is copied but waits to be published.
  const SegmentBytes all(where.segment->seglets_.data(), kSegmentBytes);
  return {all, where.offset, all.load_at<EntryHeader>(where.offset)};
}

}  // namespace ramcloud::log
