// The memory of a log: one anonymous mapping cut in 64 KiB seglets ([Ousterhout15 §4.1]; seglets
// are what segments are made of, so that cleaning can give back less than a segment).
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
  };

  /// Maps `bytes`, rounded down to whole segments and at least one. Without huge pages, or when the
  /// limits do not allow locking, it says so once in the log and goes on. Ends the process when the
  /// memory cannot be mapped at all, for example because too few huge pages are set aside: nothing
  /// works without it.
  Arena(uint64_t bytes, Options options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint32_t total_seglets() const { return total_seglets_; }
  uint32_t free_seglets() const;
  uint32_t total_segments() const { return total_seglets_ / kSegletsPerSegment; }
  bool huge_pages() const { return mapping_.huge_pages(); }
  bool locked() const { return locked_; }

  /// Gives the segment as many seglets as `out` has places, or none at all (false). From now on
  /// segment_of() knows them.
  bool allocate(Segment& segment, std::span<char*> out);
  /// Takes seglets back. Nobody may still read them.
  void free(std::span<char* const> seglets);

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
    return address >= base_ && address < base_ + uint64_t{total_seglets_} * kSegletBytes;
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
  void map_ordinary(uint64_t usable, bool try_huge_pages);
  void map_reserved(uint64_t usable, uint64_t page_bytes);

  Mapping mapping_;
  char* base_ = nullptr;
  uint32_t total_seglets_ = 0;
  bool locked_ = false;
  std::unique_ptr<Owner[]> owners_;
  mutable SpinLock lock_;
  std::vector<uint32_t> free_ RC_GUARDED_BY(lock_);  // indexes; a stack, lowest on top at first
};

}  // namespace ramcloud::log
