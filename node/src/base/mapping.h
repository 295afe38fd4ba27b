// Large, zeroed memory of its own mapping, in huge pages where the system has them: what is looked up
// at random in gigabytes of 4 KiB pages waits for page tables as much as for memory.
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

  /// At least `bytes`, from a multiple of 2 MiB on. Pages come when they are touched; with
  /// `try_huge_pages` as transparent huge pages if the system gives them. False: errno says why
  /// not.
  bool map(uint64_t bytes, bool try_huge_pages);
  /// Of huge pages of this size that were set aside on the machine, all touched at once: a
  /// container's limit shows only then, and later it would be a SIGBUS. False: errno says why not.
  bool map_reserved(uint64_t bytes, uint64_t page_bytes);
  /// Touches every page, so that nobody waits for a page fault later.
  void touch();

  /// @name Address space whose memory comes and goes. Parts are whole pages of the system.
  /// @{
  /// `bytes` of it, from a multiple of 2 MiB on: no memory, and a crash for who touches it. False:
  /// errno says why not.
  bool reserve(uint64_t bytes);
  /// [from, from + bytes) may be touched from now on. Pages come then, as transparent huge ones if
  /// that is wished for and the system gives them. False: errno says why not.
  bool open(uint64_t from, uint64_t bytes, bool try_huge_pages);
  /// Brings the pages of a part that is open. False: the system has none; errno says why.
  bool bring(uint64_t from, uint64_t bytes);
  /// The system has the pages of an open part again, locked ones as well. It stays open, and is zero
  /// when it is touched again. False: errno says why not.
  bool give_back(uint64_t from, uint64_t bytes);
  /// @}

  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  /// The system agreed to huge pages; of transparent ones it may still give fewer.
  bool huge_pages() const { return huge_pages_; }

 private:
  char* mapping_ = nullptr;  // what mmap gave; data_ is the first aligned address in it
  uint64_t mapping_bytes_ = 0;
  char* data_ = nullptr;
  uint64_t size_ = 0;
  bool huge_pages_ = false;
};

}  // namespace ramcloud
