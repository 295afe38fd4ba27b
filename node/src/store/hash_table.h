// The hash table of a master [Ousterhout15 §4.1]: 64-byte buckets of 8 slots, each a 16-bit tag
// and a 47-bit address. The table does not interpret addresses: full keys are compared by a
// callback.
//
// Slot: bits 0-46 address, bit 47 set: the address is that of an overflow bucket (only in the last
// slot of a bucket), bits 48-63 tag. 0: empty. The bucket is chosen by the low bits of the key
// hash, the tag is bits 32-47.
//
// Readers take no lock. Slots are 8-byte atomics, stored with release and loaded with acquire: a
// thread that loads an address sees what was written before it was stored. Overflow buckets are
// never freed. An entry moves between slots in one case only: the last slot's entry goes into a new
// overflow bucket. It is copied first, and then the last slot becomes the chain address, so a
// reader finds it in one of the two. Writers hold the bucket's stripe lock. An entry that a reader
// found may be replaced at once, so its memory must stay valid (epochs).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/atomic.h"
#include "base/mapping.h"
#include "base/spin_lock.h"

namespace ramcloud::store {

inline constexpr uint32_t kSlotsPerBucket = 8;

class HashTable {
 public:
  using Slot = Atomic<uint64_t>;
  class Memory;

  /// `buckets` is rounded down to a power of two, at least 8, because the caller has reserved no
  /// more memory. An eighth of that is preallocated for overflow buckets; when they are used up,
  /// more are allocated in chunks.
  explicit HashTable(uint64_t buckets);
  explicit HashTable(Memory memory);
  ~HashTable();
  HashTable(const HashTable&) = delete;
  HashTable& operator=(const HashTable&) = delete;

  uint64_t bucket_count() const { return mask_ + 1; }
  uint64_t bucket_of(uint64_t hash) const { return hash & mask_; }
  static uint16_t tag_of(uint64_t hash) { return static_cast<uint16_t>(hash >> 32); }

  void prefetch(uint64_t hash) const { __builtin_prefetch(&buckets_[hash & mask_]); }
  /// Prefetches the memory that the first slot with this tag points at: nearly always the entry.
  /// Call it when the bucket is in the cache.
  void prefetch_entry(uint64_t hash) const {
    const uint64_t tag = tag_of(hash);
    for (const Slot& slot : buckets_[hash & mask_].slots) {
      const uint64_t word = slot.load(std::memory_order_relaxed);
      if (word >> kTagShift != tag || word == 0 || is_chain(word)) continue;
      return prefetch_lines(address_in(word));
    }
  }
  void prefetch_bucket(uint64_t bucket) const { __builtin_prefetch(&buckets_[bucket]); }
  /// The same for all entries of a bucket but those of overflow buckets, for a scan of it.
  void prefetch_entries(uint64_t bucket) const {
    for (const Slot& slot : buckets_[bucket].slots) {
      const uint64_t word = slot.load(std::memory_order_relaxed);
      if (word != 0 && !is_chain(word)) prefetch_lines(address_in(word));
    }
  }

  /// The address whose tag matches and for which match(address) is true, or null. Lock-free.
  template <typename Match>
  const char* lookup(uint64_t hash, Match&& match) const {
    const uint64_t tag = tag_of(hash);
    const Bucket* bucket = &buckets_[hash & mask_];
    for (;;) {
      const Bucket* overflow = nullptr;
      for (const Slot& slot : bucket->slots) {
        const uint64_t word = slot.load(std::memory_order_acquire);
        if (is_chain(word)) {
          overflow = bucket_at(word);
        } else if (word >> kTagShift == tag && word != 0 && match(address_in(word))) {
          return address_in(word);
        }
      }
      if (overflow == nullptr) return nullptr;
      bucket = overflow;
    }
  }

  /// @name For writers, under lock_of(hash)
  /// @{
  SpinLock& lock_of(uint64_t hash) const { return stripes_[stripe_of(bucket_of(hash))].lock; }
  /// As lookup(), but returns the slot.
  template <typename Match>
  Slot* find(uint64_t hash, Match&& match) {
    const uint64_t tag = tag_of(hash);
    Slot* found = nullptr;
    for_each_slot(bucket_of(hash), [&](Slot& slot, uint32_t) {
      const uint64_t word = slot.load(std::memory_order_relaxed);
      if (word != 0 && word >> kTagShift == tag && match(address_in(word))) found = &slot;
      return found == nullptr;
    });
    return found;
  }
  /// Puts an address into a free slot. Does not allocate while overflow buckets are left.
  /// Precondition: the key is not in the table.
  void insert(uint64_t hash, const char* address);
  /// Replaces the address in a slot that find() returned for the same key.
  void replace(Slot& slot, uint64_t hash, const char* address) {
    slot.store(word_of(hash, address), std::memory_order_release);
  }
  /// Empties a slot in the chain of that bucket.
  void clear(Slot& slot, uint64_t bucket) {
    slot.store(0, std::memory_order_release);
    stripes_[stripe_of(bucket)].add(-1);
  }
  static const char* address_in(const Slot& slot) {
    return address_in(slot.load(std::memory_order_relaxed));
  }
  /// @}

  /// f(address, tag, ordinal) for each entry of a bucket, under its stripe lock. The ordinal is the
  /// entry's place in the chain; it does not change while the entry is in the table.
  template <typename F>
  void scan_bucket(uint64_t bucket, F&& f) {
    SpinGuard guard(stripes_[stripe_of(bucket)].lock);
    for_each_slot(bucket, [&](Slot& slot, uint32_t ordinal) {
      const uint64_t word = slot.load(std::memory_order_relaxed);
      if (word != 0) f(address_in(word), static_cast<uint16_t>(word >> kTagShift), ordinal);
      return true;
    });
  }
  /// f(slot) for each used slot of a bucket under its stripe lock, until it returns false; f may
  /// clear the slot.
  template <typename F>
  void scan_slots(uint64_t bucket, F&& f) {
    SpinGuard guard(stripes_[stripe_of(bucket)].lock);
    for_each_slot(bucket, [&](Slot& slot, uint32_t) {
      return slot.load(std::memory_order_relaxed) == 0 || f(slot);
    });
  }

  uint64_t entries() const;
  /// The memory of all buckets, used or not.
  uint64_t memory_bytes() const;
  uint64_t overflow_buckets() const { return overflow_used_.load(std::memory_order_relaxed); }

 private:
  static void prefetch_lines(const char* entry) {
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + kCacheLineBytes);
    __builtin_prefetch(entry + 2 * kCacheLineBytes);
  }
  struct alignas(kCacheLineBytes) Bucket {
    Slot slots[kSlotsPerBucket];
  };
  static_assert(sizeof(Bucket) == kCacheLineBytes);

 public:
  /// Memory for a table with so many buckets. Touching every page can take seconds, so a server
  /// calls this before its reactor holds any reply.
  class Memory {
   public:
    explicit Memory(uint64_t buckets);

   private:
    friend class HashTable;
    uint64_t count_;
    Mapping mapping_;
    uint64_t overflow_count_;
    std::unique_ptr<Bucket[]> overflow_;
  };

 private:
  struct alignas(kCacheLineBytes) Stripe {
    SpinLock lock;
    Atomic<int64_t> entries{0};  // in its buckets; changed under the lock, which is on the same
                                 // cache line
    void add(int64_t n) {
      entries.store(entries.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
  };
  struct Chunk {
    std::unique_ptr<Bucket[]> buckets;
    uint64_t count = 0;
    uint64_t used = 0;
  };

  static constexpr int kTagShift = 48;
  static constexpr uint64_t kChainBit = uint64_t{1} << 47;
  static constexpr uint64_t kAddressMask = kChainBit - 1;
  static constexpr uint64_t kStripes = 1024;
  static constexpr uint32_t kLastSlot = kSlotsPerBucket - 1;

  static bool is_chain(uint64_t word) { return (word & kChainBit) != 0; }
  static const char* address_in(uint64_t word) {
    return reinterpret_cast<const char*>(word & kAddressMask);
  }
  static Bucket* bucket_at(uint64_t word) { return reinterpret_cast<Bucket*>(word & kAddressMask); }
  static uint64_t word_of(uint64_t hash, const char* address) {
    return uint64_t{tag_of(hash)} << kTagShift | reinterpret_cast<uint64_t>(address);
  }
  static uint64_t stripe_of(uint64_t bucket) { return bucket % kStripes; }

  /// f(slot, ordinal) for each slot of the chain that is not a chain address, until it returns
  /// false.
  template <typename F>
  void for_each_slot(uint64_t index, F&& f) {
    // Seven ordinals for each bucket: the eighth slot's entry has the first ordinal of the next
    // bucket.
    uint32_t level_base = 0;
    for (Bucket* bucket = &buckets_[index]; bucket != nullptr; level_base += kLastSlot) {
      Bucket* overflow = nullptr;
      for (uint32_t i = 0; i < kSlotsPerBucket; ++i) {
        const uint64_t word = bucket->slots[i].load(std::memory_order_relaxed);
        if (is_chain(word)) {
          overflow = bucket_at(word);
        } else if (!f(bucket->slots[i], level_base + i)) {
          return;
        }
      }
      bucket = overflow;
    }
  }
  Bucket* new_overflow_bucket();

  uint64_t mask_;
  Mapping mapping_;
  Bucket* buckets_ = nullptr;  // in mapping_
  mutable std::unique_ptr<Stripe[]> stripes_;
  // Inserts change these fields, so they are on another cache line than those that every lookup
  // reads.
  alignas(kCacheLineBytes) mutable SpinLock overflow_lock_;
  std::vector<Chunk> overflow_ RC_GUARDED_BY(overflow_lock_);
  Atomic<uint64_t> overflow_used_{0};
};

}  // namespace ramcloud::store
