#include "store/hash_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

namespace ramcloud::store {
namespace {

/// Hashes of bucket 3 of any table of 8 or more buckets, all with the same tag.
uint64_t colliding(uint64_t i) {
  return i << 48 | uint64_t{0x1234} << 32 | 3;
}

/// Entries whose addresses are those of their hashes, so that match() can tell them apart.
struct Entries {
  explicit Entries(size_t count) : hashes(count) {
    for (size_t i = 0; i < count; ++i) hashes[i] = colliding(i);
  }
  const char* address(size_t i) const { return reinterpret_cast<const char*>(&hashes[i]); }
  static auto is(uint64_t hash) {
    return
        [hash](const char* address) { return *reinterpret_cast<const uint64_t*>(address) == hash; };
  }
  void insert(HashTable& table, size_t i) const {
    SpinGuard guard(table.lock_of(hashes[i]));
    table.insert(hashes[i], address(i));
  }
  std::vector<uint64_t> hashes;
};

/// The size of the table is a promise: the memory limit of a container is computed from it.
TEST(HashTable, HasNoMoreBucketsThanAskedFor) {
  EXPECT_EQ(HashTable(1024).bucket_count(), 1024u);
  EXPECT_EQ(HashTable(1025).bucket_count(), 1024u);
  EXPECT_EQ(HashTable(2047).bucket_count(), 1024u);
  EXPECT_EQ(HashTable(0).bucket_count(), 8u);
}

TEST(HashTable, TakesMemoryThatWasMadeBefore) {
  HashTable table(HashTable::Memory(1000));
  EXPECT_EQ(table.bucket_count(), 512u);
  const Entries entries(2000);  // into overflow buckets, too
  for (size_t i = 0; i < 2000; ++i) entries.insert(table, i);
  EXPECT_EQ(table.entries(), 2000u);
}

TEST(HashTable, EntriesWithTheSameTagAreToldApartByMatch) {
  HashTable table(8);
  const Entries entries(5);
  for (size_t i = 0; i < 5; ++i) entries.insert(table, i);
  EXPECT_EQ(table.overflow_buckets(), 0u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(table.lookup(entries.hashes[i], Entries::is(entries.hashes[i])), entries.address(i));
  }
  EXPECT_EQ(table.lookup(colliding(9), Entries::is(colliding(9))), nullptr);
  // Another tag in the same bucket is not even compared.
  int compared = 0;
  EXPECT_EQ(table.lookup(3, [&](const char*) { return ++compared, true; }), nullptr);
  EXPECT_EQ(compared, 0);
}

TEST(HashTable, OverflowKeepsEveryEntryAndItsOrdinal) {
  HashTable table(8);  // one overflow bucket is kept ready; more come from a chunk
  constexpr size_t kEntries = 100;
  const Entries entries(kEntries);
  std::map<const char*, uint32_t> ordinals;
  for (size_t i = 0; i < kEntries; ++i) {
    entries.insert(table, i);
    std::set<uint32_t> used;
    table.scan_bucket(3, [&](const char* address, uint16_t tag, uint32_t ordinal) {
      EXPECT_EQ(tag, 0x1234);
      EXPECT_TRUE(used.insert(ordinal).second);
      const auto [known, fresh] = ordinals.emplace(address, ordinal);
      if (!fresh) EXPECT_EQ(known->second, ordinal) << "an entry moved";
    });
    ASSERT_EQ(used.size(), i + 1);
  }
  EXPECT_EQ(table.entries(), kEntries);
  // Seven entries a bucket, because the last slot leads on; the end of the chain holds eight.
  EXPECT_EQ(table.overflow_buckets(), (kEntries - 8 + 6) / 7);
  for (size_t i = 0; i < kEntries; ++i) {
    EXPECT_EQ(table.lookup(entries.hashes[i], Entries::is(entries.hashes[i])), entries.address(i));
  }
}

TEST(HashTable, ClearedSlotsOfOverflowBucketsAreUsedAgain) {
  HashTable table(8);
  const Entries entries(40);
  for (size_t i = 0; i < 30; ++i) entries.insert(table, i);
  const uint64_t buckets = table.overflow_buckets();
  for (size_t i = 10; i < 20; ++i) {
    SpinGuard guard(table.lock_of(entries.hashes[i]));
    HashTable::Slot* slot = table.find(entries.hashes[i], Entries::is(entries.hashes[i]));
    ASSERT_NE(slot, nullptr);
    table.clear(*slot, table.bucket_of(entries.hashes[i]));
  }
  EXPECT_EQ(table.entries(), 20u);
  for (size_t i = 30; i < 40; ++i) entries.insert(table, i);
  EXPECT_EQ(table.overflow_buckets(), buckets);
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(table.lookup(entries.hashes[i], Entries::is(entries.hashes[i])),
              i >= 10 && i < 20 ? nullptr : entries.address(i));
  }
}

TEST(HashTable, AReaderFindsWhatIsThereWhileTheChainGrows) {
  HashTable table(8);
  const Entries entries(300);
  for (size_t i = 0; i < 8; ++i)
    entries.insert(table, i);  // the last one moves with the first overflow
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> lost{0};
  std::thread reader([&] {
    do {
      for (size_t i = 0; i < 8; ++i) {
        lost += table.lookup(entries.hashes[i], Entries::is(entries.hashes[i])) == nullptr;
      }
    } while (!stop.load());
  });
  for (size_t i = 8; i < 300; ++i) entries.insert(table, i);
  stop = true;
  reader.join();
  EXPECT_EQ(lost.load(), 0u);
}

}  // namespace
}  // namespace ramcloud::store
