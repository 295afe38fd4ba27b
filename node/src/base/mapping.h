// Large, zeroed memory in a mapping, with huge pages if the system has them: random accesses to
// gigabytes of 4 KiB pages wait for page tables as much as for memory.
#pragma once

#include <cstdint>
#include <utility>

namespace ramcloud {

class Mapping {
 public:
  static constexpr uint64_t kHugePageBytes = 2u << 20;

  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;

  /// Maps at least `bytes`, aligned to 2 MiB. The system adds pages on first use; with
  /// `try_huge_pages` as transparent huge pages if possible. False: errno says why not.
  bool map(uint64_t bytes, bool try_huge_pages);
  /// Maps reserved huge pages of this size, and touches all of them at once: a container's limit
  /// applies only then, and later it would cause a SIGBUS. False: errno says why not.
  bool map_reserved(uint64_t bytes, uint64_t page_bytes);
  /// Touches every page, so that no page faults happen later.
  void touch();

  /// @name Address space with changing memory. Parts must be whole pages.
  /// @{ Reserves `bytes` of address space, aligned to 2 MiB: it has no memory, and touching it
  /// crashes. False: errno says why not.
  bool reserve(uint64_t bytes);
  /// [from, from + bytes) may be touched from now on. The system adds pages on first use, as
  /// transparent huge pages if requested and possible. False: errno says why not.
  bool open(uint64_t from, uint64_t bytes, bool try_huge_pages);
  /// Gets the pages of an open part from the system now. False: the system has none; errno says
  /// why.
  bool bring(uint64_t from, uint64_t bytes);
  /// Gives the pages of an open part back to the system, locked ones as well. The part stays open,
  /// and is zero when it is touched again. False: errno says why not.
  bool give_back(uint64_t from, uint64_t bytes);
  /// @}

  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  /// The system accepted huge pages; with transparent ones, some pages may still be small.
  bool huge_pages() const { return huge_pages_; }

 private:
  char* mapping_ = nullptr;  // the result of mmap; data_ is the first aligned address in it
  uint64_t mapping_bytes_ = 0;
  char* data_ = nullptr;
  uint64_t size_ = 0;
  bool huge_pages_ = false;
};

}  // namespace ramcloud
