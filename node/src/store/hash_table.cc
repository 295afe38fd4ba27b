#include "store/hash_table.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/logging.h"

namespace ramcloud::store {

HashTable::Memory::Memory(uint64_t buckets)
    : count_(std::bit_floor(std::max<uint64_t>(buckets, 8))), overflow_count_(count_ / 8) {
  const uint64_t bytes = count_ * sizeof(Bucket);
  if (!mapping_.map(bytes, bytes >= Mapping::kHugePageBytes)) {
    fatal("hash table cannot be mapped", {{"bytes", bytes}, {"error", strerror(errno)}});
  }
  // This also touches every page.
  std::uninitialized_value_construct_n(reinterpret_cast<Bucket*>(mapping_.data()), count_);
  overflow_ = std::make_unique<Bucket[]>(overflow_count_);
}

HashTable::HashTable(uint64_t buckets) : HashTable(Memory(buckets)) {}

HashTable::HashTable(Memory memory)
    : mask_(memory.count_ - 1),
      mapping_(std::move(memory.mapping_)),
      buckets_(reinterpret_cast<Bucket*>(mapping_.data())),
      stripes_(std::make_unique<Stripe[]>(kStripes)) {
  overflow_.push_back({std::move(memory.overflow_), memory.overflow_count_, 0});
}

HashTable::~HashTable() = default;

uint64_t HashTable::memory_bytes() const {
  SpinGuard guard(overflow_lock_);
  uint64_t buckets = mask_ + 1;
  for (const Chunk& chunk : overflow_) buckets += chunk.count;
  return buckets * sizeof(Bucket);
}

uint64_t HashTable::entries() const {
  int64_t sum = 0;
  for (uint64_t i = 0; i < kStripes; ++i) {
    sum += stripes_[i].entries.load(std::memory_order_relaxed);
  }
  return static_cast<uint64_t>(sum);
}

HashTable::Bucket* HashTable::new_overflow_bucket() {
  SpinGuard guard(overflow_lock_);
  if (overflow_.back().used == overflow_.back().count) {
    constexpr uint64_t kChunkBuckets = 1024;
    overflow_.push_back({std::make_unique<Bucket[]>(kChunkBuckets), kChunkBuckets, 0});
  }
  overflow_used_.fetch_add(1, std::memory_order_relaxed);
  Chunk& chunk = overflow_.back();
  return &chunk.buckets[chunk.used++];
}

void HashTable::insert(uint64_t hash, const char* address) {
  const uint64_t word = word_of(hash, address);
  stripes_[stripe_of(bucket_of(hash))].add(1);
  Slot* free = nullptr;
  for_each_slot(bucket_of(hash), [&](Slot& slot, uint32_t) {
    if (slot.load(std::memory_order_relaxed) == 0) free = &slot;
    return free == nullptr;
  });
  if (free != nullptr) {
    free->store(word, std::memory_order_release);
    return;
  }
  // All slots are full. The last slot's entry is copied to a new bucket, with the same ordinal,
  // before the chain address replaces it.
  Bucket* last = &buckets_[bucket_of(hash)];
  uint64_t moved = last->slots[kLastSlot].load(std::memory_order_relaxed);
  while (is_chain(moved)) {
    last = bucket_at(moved);
    moved = last->slots[kLastSlot].load(std::memory_order_relaxed);
  }
  Bucket* overflow = new_overflow_bucket();
  overflow->slots[0].store(moved, std::memory_order_relaxed);
  overflow->slots[1].store(word, std::memory_order_relaxed);
  last->slots[kLastSlot].store(reinterpret_cast<uint64_t>(overflow) | kChainBit,
                               std::memory_order_release);
}

}  // namespace ramcloud::store
