// Enumeration while the tablet changes: another server, another hash table, a split.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "log/log_test_support.h"
#include "store/object_store.h"

namespace ramcloud::store {
namespace {

constexpr uint64_t kTable = 1;
constexpr uint64_t kLast = ~uint64_t{0};

struct Server {
  explicit Server(uint64_t buckets)
      : parts(4, true, 1, false), store(parts.log, clock, {.buckets = buckets}) {
    parts.log.start();
  }
  void take(uint64_t start, uint64_t end) {
    EXPECT_TRUE(store.take_tablet(kTable, start, end).ok());
  }
  void write(const std::string& key) {
    uint64_t version = 0;
    log::LogPosition depends_on;
    EXPECT_EQ(store.write(kTable, key, "value of " + key, {}, version, depends_on),
              StatusCode::kOk);
  }
  VirtualClock clock;
  log::TestLog parts;
  ObjectStore store;
};

std::string key_of(const log::ObjectView& object) {
  std::string key(object.key_length, '\0');
  object.entry.read(log::ObjectView::key_offset, key.data(), object.key_length);
  return key;
}

std::string key_number(int i) {
  return fmt::format("key {}", i);
}

/// A part of a tablet's objects that is still to be given.
struct Part {
  uint64_t start = 0, end = kLast, cursor = 0;
};

TEST(Enumeration, ACursorHoldsOnEveryServer) {
  Random random(7);
  // The same objects in tables of every size, as after recoveries.
  std::vector<std::unique_ptr<Server>> servers;
  for (const uint64_t buckets : {8, 64, 1024, 65'536}) {
    servers.push_back(std::make_unique<Server>(buckets));
    servers.back()->take(0, kLast);
    for (int i = 0; i < 500; ++i) servers.back()->write(key_number(i));
  }
  for (int round = 0; round < 20; ++round) {
    std::multiset<std::string> seen;
    std::vector<log::ObjectView> page(1 + random.below(40));
    EnumerateResult result;
    do {
      Server& server = *servers[random.below(servers.size())];
      const EnumerateLimits limits{.max_bytes = static_cast<uint32_t>(1 + random.below(2'000)),
                                   .max_buckets = static_cast<uint32_t>(1 + random.below(3'000)),
                                   .max_entries = static_cast<uint32_t>(1 + random.below(60))};
      ASSERT_EQ(server.store.enumerate(kTable, 0, result.next_cursor, limits, page, result),
                StatusCode::kOk);
      for (uint32_t i = 0; i < result.count; ++i) seen.insert(key_of(page[i]));
    } while (!result.done);
    ASSERT_EQ(seen.size(), 500u);
    ASSERT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 500u) << "each key once";
  }
}

/// A scan as clients do it: docs/design/wire.md, "Scans".
TEST(Enumeration, ASplitTabletIsGivenOnce) {
  Random random(11);
  for (int round = 0; round < 20; ++round) {
    Server whole(256), left(8), right(2048);
    const uint64_t middle = random.next();
    whole.take(0, kLast);
    left.take(0, middle);
    right.take(middle + 1, kLast);
    for (int i = 0; i < 300; ++i) {
      whole.write(key_number(i));
      const uint64_t hash = key_hash(kTable, key_number(i));
      (hash <= middle ? left : right).write(key_number(i));
    }
    std::multiset<std::string> seen;
    std::vector<log::ObjectView> page(10);
    std::vector<Part> parts{{}};
    int pages_before = static_cast<int>(random.below(20));
    while (!parts.empty()) {
      Part part = parts.back();
      parts.pop_back();
      Server& server = pages_before-- > 0 ? whole : part.start <= middle ? left : right;
      EnumerateResult result;
      ASSERT_EQ(server.store.enumerate(kTable, part.start, part.cursor, {}, page, result),
                StatusCode::kOk);
      for (uint32_t i = 0; i < result.count; ++i) seen.insert(key_of(page[i]));
      if (result.tablet_end < part.end) {
        parts.push_back({result.tablet_end + 1, part.end, part.cursor});
        part.end = result.tablet_end;
      }
      part.cursor = result.next_cursor;
      if (!result.done) parts.push_back(part);
    }
    ASSERT_EQ(seen.size(), 300u) << "split at " << middle;
    ASSERT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 300u);
  }
}

/// Keys with the same hash: XXH3 multiplies the first eight bytes of such keys, mixed with a
/// constant and the table's id, by the next eight. Here the first factor is 0.
std::string colliding_key(uint64_t i) {
  const uint64_t zero_factor = 0xbe4ba423396cfeb8 + kTable;
  return std::string(bytes_of(zero_factor)).append(bytes_of(i)).append(16, 'x');
}

TEST(Enumeration, ObjectsOfOneHashMayFillManyPages) {
  Random random(13);
  std::vector<std::unique_ptr<Server>> servers;
  for (const uint64_t buckets : {8, 1024}) {
    servers.push_back(std::make_unique<Server>(buckets));
    servers.back()->take(0, kLast);
    for (uint64_t i = 0; i < 300; ++i) servers.back()->write(colliding_key(i));
    for (int i = 0; i < 100; ++i) servers.back()->write(key_number(i));
  }
  ASSERT_EQ(key_hash(kTable, colliding_key(0)), key_hash(kTable, colliding_key(299)));
  for (int round = 0; round < 10; ++round) {
    std::multiset<std::string> seen;
    std::vector<log::ObjectView> page(1 + random.below(60));
    EnumerateResult result;
    std::string after;
    int pages = 0;
    do {
      Server& server = *servers[random.below(servers.size())];
      const EnumerateLimits limits{.max_entries = static_cast<uint32_t>(1 + random.below(60)),
                                   .splits_hashes = true,
                                   .after_key = after};
      ASSERT_EQ(server.store.enumerate(kTable, 0, result.next_cursor, limits, page, result),
                StatusCode::kOk);
      for (uint32_t i = 0; i < result.count; ++i) seen.insert(key_of(page[i]));
      after = result.within_hash ? key_of(page[result.count - 1]) : "";
    } while (!result.done && ++pages < 2'000);
    EXPECT_TRUE(result.done);
    ASSERT_EQ(seen.size(), 400u);
    ASSERT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 400u) << "each key once";
  }
}

/// Clients of earlier versions cannot go on between two of them.
TEST(Enumeration, ObjectsOfOneHashAreInOnePageForCallersThatDoNotSplitThem) {
  Server server(64);
  server.take(0, kLast);
  for (uint64_t i = 0; i < 20; ++i) server.write(colliding_key(i));
  std::vector<log::ObjectView> page(20);
  EnumerateResult result;
  const auto enumerate = [&] {
    const EnumerateLimits limits{.max_bytes = 1, .max_entries = 10};
    return server.store.enumerate(
        kTable, 0, enumeration_position(key_hash(kTable, colliding_key(0))), limits, page, result);
  };
  EXPECT_EQ(enumerate(), StatusCode::kOk);
  EXPECT_EQ(result.count, 20u);
  page.resize(19);
  EXPECT_EQ(enumerate(), StatusCode::kInternal);
}

TEST(Enumeration, ThePlaceOfAHashIsItsBitsTurnedRound) {
  EXPECT_EQ(enumeration_position(0), 0u);
  EXPECT_EQ(enumeration_position(1), uint64_t{1} << 63);
  EXPECT_EQ(enumeration_position(kLast), kLast);
  EXPECT_EQ(enumeration_position(0x0123456789abcdef), 0xf7b3d591e6a2c480u);
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    const uint64_t hash = random.next();
    EXPECT_EQ(enumeration_position(enumeration_position(hash)), hash);
  }
}

}  // namespace
}  // namespace ramcloud::store
