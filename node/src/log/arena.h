// The memory of a log: one anonymous mapping cut in 64 KiB seglets ([Ousterhout15 §4.1]; seglets
// are what segments are made of, so that cleaning can give back less than a segment).
//
// How many seglets segments may have is limited, and the limit moves while the log is used: towards
// a target, in steps (docs/design/log.md#resize). Which seglets have no memory does not matter.
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
    // Size of huge pages that were set aside on the machine (2 MiB or 1 GiB), which all of it is
    // then made of; 0: of ordinary ones.
    uint64_t reserved_page_bytes = 0;
    // Address space is reserved for so much, which the log may grow to. At most what there is at the
    // start: it can only shrink. Not with reserved pages, which stay as they are.
    uint64_t most_bytes = 0;
  };

  /// Maps `bytes`, rounded down to whole segments and at least one. Without huge pages, or when the
  /// limits do not allow locking, it says so once in the log and goes on. Ends the process when the
  /// memory cannot be mapped at all, for example because too few huge pages are set aside: nothing
  /// works without it.
  Arena(uint64_t bytes, Options options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// The limit: so many may be in segments.
  uint32_t total_seglets() const;
  uint32_t total_segments() const { return total_seglets() / kSegletsPerSegment; }
  /// Below the limit.
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
    uint32_t held = 0;  // that have memory: in segments, and free ones, also above the limit
    uint32_t used = 0;  // in segments
    bool settled() const { return limit == target && held == target; }
  };
  Sizes sizes() const;
  /// False: of pages that were set aside, which stay as they are.
  bool resizable() const { return resizable_; }
  /// Whole segments, one at least and most_segments() at most. Memory that is there counts at once;
  /// what is missing comes with settle(). The limit sinks with lower_limit(). One thread at a time,
  /// with settle().
  void set_target(uint32_t segments);
  /// Towards a lower target, as far as `kept` seglets stay free.
  void lower_limit(uint32_t kept);
  /// A slice of work: brings some of the memory that is missing, or gives some back that is above the
  /// limit. False: there is nothing to do now. When the system has no memory for growth, says so in
  /// the log, and what there is becomes the target.
  bool settle();
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

  /// The entry whose header begins at `address`; as appended by Log, so its header is trusted. One
  /// branch when the entry lies in one seglet.
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
  Mapping owners_mapping_;  // of most_seglets_; pages come when they are needed
  Owner* owners_ = nullptr;

  // Of set_target() and settle().
  uint32_t opened_ = 0;                  // seglets from the start that may be touched
  std::vector<uint32_t> without_pages_;  // of them, as indexes

  mutable SpinLock lock_;
  Sizes sizes_ RC_GUARDED_BY(lock_);
  std::vector<uint32_t> free_ RC_GUARDED_BY(lock_);  // indexes; a stack, lowest on top at first
};

}  // namespace ramcloud::log
