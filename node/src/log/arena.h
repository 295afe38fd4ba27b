// The memory of a log: one anonymous mapping cut in 64 KiB seglets ([Ousterhout15 §4.1]; segments
// consist of seglets, so that cleaning can give back less than a segment).
//
// The number of seglets in segments has a limit, which moves in steps towards a target while the
// log is used (docs/design/log.md#resize). Any seglets may be the ones without memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/mapping.h"
#include "base/spin_lock.h"
#include "log/entry_view.h"
#include "log/format.h"

namespace ramcloud::log {

class Segment;

class Arena {
 public:
  struct Options {
    bool try_huge_pages = true;  // transparent huge pages where the kernel gives them
    bool prefault = true;        // touch every page now, so that no write pays for a page fault
    bool try_lock = false;       // keep it out of swap, if RLIMIT_MEMLOCK allows
    // Size of the reserved huge pages (2 MiB or 1 GiB) that all memory then consists of; 0:
    // ordinary pages.
    uint64_t reserved_page_bytes = 0;
    // The log may grow to this size; address space is reserved for it. If it is not above the size
    // at the start, the log can only shrink. Ignored with reserved huge pages: such an arena keeps
    // its size.
    uint64_t most_bytes = 0;
  };

  /// Maps `bytes`, rounded down to whole segments and at least one. Without huge pages, or when the
  /// limits do not allow locking, it logs that once and goes on. Ends the process when the memory
  /// cannot be mapped at all, for example because too few huge pages are reserved.
  Arena(uint64_t bytes, Options options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// The limit of seglets in segments.
  uint32_t total_seglets() const;
  uint32_t total_segments() const { return total_seglets() / kSegletsPerSegment; }
  /// Free seglets below the limit.
  uint32_t free_seglets() const;
  /// The limit is never above this.
  uint32_t most_segments() const { return most_seglets_ / kSegletsPerSegment; }
  bool huge_pages() const { return mapping_.huge_pages(); }
  bool locked() const { return locked_; }

  /// Gives the segment as many seglets as `out` has places, or none at all (false). From now on
  /// segment_of() knows them.
  bool allocate(Segment& segment, std::span<char*> out);
  /// Takes seglets back. Nobody may still read them.
  void free(std::span<char* const> seglets);

  /// @name Resizing
  /// @{
  struct Sizes {  // in seglets
    uint32_t target = 0;
    uint32_t limit = 0;
    uint32_t held = 0;  // that have memory: in segments or free, also above the limit
    uint32_t used = 0;  // in segments
    bool at_target() const { return limit == target && held == target; }
  };
  Sizes sizes() const;
  /// False with reserved huge pages: the size does not change.
  bool resizable() const { return resizable_; }
  /// In whole segments, at least one and at most most_segments(). Memory that exists already counts
  /// at once; continue_resize() gets the rest from the system. lower_limit() lowers the limit. Called
  /// by one thread at a time, as is continue_resize().
  void set_target(uint32_t segments);
  /// Lowers the limit towards a lower target, so far that `kept` seglets stay free.
  void lower_limit(uint32_t kept);
  /// A slice of work: gets some of the missing memory from the system, or gives back some that is
  /// above the limit. False: there is nothing to do now. If the system has no memory for growth,
  /// logs that, and the present size becomes the target.
  bool continue_resize();
  /// @}

  struct Location {
    Segment* segment = nullptr;  // null: the address is in a free seglet
    uint32_t offset = 0;         // in the segment
  };
  /// Requires an address inside the arena.
  Location locate(const char* address) const {
    const uint64_t distance = static_cast<uint64_t>(address - base_);
    const Owner& owner = owners_[distance / kSegletBytes];
    return {owner.segment,
            owner.index * kSegletBytes + static_cast<uint32_t>(distance % kSegletBytes)};
  }
  Segment* segment_of(const char* address) const { return locate(address).segment; }
  bool contains(const char* address) const {
    return address >= base_ && address < base_ + uint64_t{most_seglets_} * kSegletBytes;
  }

  /// The entry whose header begins at `address`; Log appended it, so its header is trusted. One
  /// branch if the entry is in one seglet.
  EntryView entry(const char* address) const {
    const auto room =
        static_cast<uint32_t>(kSegletBytes - static_cast<uint64_t>(address - base_) % kSegletBytes);
    if (room >= sizeof(EntryHeader)) [[likely]] {
      const auto header = load<EntryHeader>(address);
      const uint32_t total = sizeof(EntryHeader) + header.length();
      if (total <= room) [[likely]]
        return {SegmentBytes(ByteView(address, total)), 0, header};
    }
    return straddling_entry(address);
  }

 private:
  struct Owner {
    Segment* segment = nullptr;
    uint32_t index = 0;  // which seglet of the segment
  };
  EntryView straddling_entry(const char* address) const;
  void map_ordinary(uint64_t usable, uint64_t most, bool try_huge_pages);
  void map_reserved(uint64_t usable, uint64_t page_bytes);
  uint32_t available() const RC_REQUIRES(lock_);
  bool grow(uint32_t count);
  bool give_back(uint32_t count);
  bool bring(const std::vector<uint32_t>& seglets);
  void stay_as_it_is(int error);

  Mapping mapping_;
  char* base_ = nullptr;
  const Options options_;
  const uint32_t most_seglets_;
  bool resizable_ = true;
  bool locked_ = false;
  Mapping owners_mapping_;  // for most_seglets_; the system adds pages on first use
  Owner* owners_ = nullptr;

  // Used by set_target() and continue_resize() only.
  uint32_t opened_ = 0;                  // seglets from the start that may be touched
  std::vector<uint32_t> without_pages_;  // indexes of opened seglets that have none

  mutable SpinLock lock_;
  Sizes sizes_ RC_GUARDED_BY(lock_);
  std::vector<uint32_t> free_ RC_GUARDED_BY(lock_);  // indexes; a stack, lowest on top at first
};

}  // namespace ramcloud::log
