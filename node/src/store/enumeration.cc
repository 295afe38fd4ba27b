// ObjectStore::enumerate(): pages of a tablet's objects, in an order that is the same on every
// server.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/sometimes.h"
#include "store/object_store.h"

namespace ramcloud::store {
namespace {

using log::EntryType;
using log::EntryView;

/// How many buckets before its turn a bucket is prefetched, and how many before it its entries.
/// Neighbours in the order of enumeration are far apart in memory: without this most of the time of
/// a page is its cache misses, one after another.
constexpr uint64_t kBucketsAhead = 8;
constexpr uint64_t kEntriesAhead = 3;

/// An entry of the tablet, by its place in the order of enumeration.
struct Candidate {
  uint64_t place = 0;
  const char* address = nullptr;
};

/// The hash of the key of an object or a tombstone.
uint64_t hash_of(uint64_t table_id, const EntryView& entry) {
  const bool object = entry.type() == EntryType::kObject;
  return object ? log::hash_of_key(table_id, entry, log::ObjectView::key_offset,
                                   entry.load_at<log::ObjectBody>(0).key_length)
                : log::hash_of_key(table_id, entry, log::TombstoneView::key_offset,
                                   entry.load_at<log::TombstoneBody>(0).key_length);
}

/// The key of an object or a tombstone.
std::string key_of(const EntryView& entry) {
  const bool object = entry.type() == EntryType::kObject;
  const uint32_t offset = object ? log::ObjectView::key_offset : log::TombstoneView::key_offset;
  std::string key(object ? entry.load_at<log::ObjectBody>(0).key_length
                         : entry.load_at<log::TombstoneBody>(0).key_length,
                  '\0');
  entry.read(offset, key.data(), static_cast<uint32_t>(key.size()));
  return key;
}

/// A page that is being filled. Entries are added by rising place.
class Page {
 public:
  Page(const EnumerateLimits& limits, std::span<log::ObjectView> out, EnumerateResult& result)
      : limits_(limits), out_(out), result_(result) {}

  enum class Added : uint8_t { kYes, kFull, kRunTooLong };
  /// kFull: the next page begins at next_place(). Objects with the same hash are in one page, if
  /// they fit in one, because a cursor cannot separate them. kRunTooLong: they do not, and the page
  /// has the first of them.
  Added add(uint64_t place, const log::ObjectView& object) {
    if (place != run_place_ || result_.count == 0) {
      run_place_ = place;
      run_begins_ = result_.count;
      bytes_before_run_ = bytes_;
    }
    const uint64_t size = sizeof(wire::EnumeratedObject) + object.key_length +
                          (limits_.keys_only ? 0 : object.value_length);
    const bool one_run = run_begins_ == 0;
    const uint64_t most =
        one_run ? std::max<uint64_t>(limits_.max_bytes, kMostOfOneHash) : limits_.max_bytes;
    const uint32_t room = static_cast<uint32_t>(out_.size());
    const uint32_t wanted = one_run ? room : std::min(room, limits_.max_entries);
    if (result_.count >= wanted || (result_.count > 0 && bytes_ + size > most)) {
      if (one_run && result_.count > 0 && place == run_place_) return Added::kRunTooLong;
      result_.count = run_begins_;
      bytes_ = bytes_before_run_;
      return Added::kFull;
    }
    out_[result_.count++] = object;
    bytes_ += size;
    return Added::kYes;
  }
  uint64_t next_place() const { return run_place_; }

 private:
  /// The limit for a page whose objects all have the same hash; below the largest message.
  static constexpr uint64_t kMostOfOneHash = 3u << 20;

  const EnumerateLimits& limits_;
  std::span<log::ObjectView> out_;
  EnumerateResult& result_;
  uint64_t bytes_ = 0;
  uint64_t run_place_ = 0;  // place of the objects from run_begins_ on
  uint32_t run_begins_ = 0;
  uint64_t bytes_before_run_ = 0;
};

}  // namespace

/// The bits of the hash in reverse order. A bucket is chosen by the hash's low bits, so it holds
/// one interval of places, for any number of buckets.
uint64_t enumeration_position(uint64_t hash) {
  uint64_t bits = std::byteswap(hash);
  bits = (bits & 0x0f0f0f0f0f0f0f0f) << 4 | (bits >> 4 & 0x0f0f0f0f0f0f0f0f);
  bits = (bits & 0x3333333333333333) << 2 | (bits >> 2 & 0x3333333333333333);
  return (bits & 0x5555555555555555) << 1 | (bits >> 1 & 0x5555555555555555);
}

StatusCode ObjectStore::enumerate(uint64_t table_id, uint64_t start_hash, uint64_t cursor,
                                  const EnumerateLimits& limits, std::span<log::ObjectView> out,
                                  EnumerateResult& result) {
  result = {};
  const Tablet* tablet = tablets_.find_served(table_id, start_hash);
  if (tablet == nullptr) return StatusCode::kUnknownTablet;
  if (out.empty()) return StatusCode::kInvalidArgument;
  result.tablet_end = tablet->end_hash;
  const uint64_t step = uint64_t{1} << (64 - std::countr_zero(table_.bucket_count()));
  const uint64_t first = cursor;
  Page page(limits, out, result);
  std::vector<Candidate> candidates;
  const auto bucket_at = [this](uint64_t place) {
    return table_.bucket_of(enumeration_position(place));
  };
  uint32_t entries = 0;
  for (uint32_t seen = 0;; ++seen) {
    result.next_cursor = cursor;
    if (seen == limits.max_buckets || entries >= limits.max_entries) return StatusCode::kOk;
    table_.prefetch_bucket(bucket_at(cursor + kBucketsAhead * step));
    table_.prefetch_entries(bucket_at(cursor + kEntriesAhead * step));
    candidates.clear();
    table_.scan_bucket(bucket_at(cursor), [&](const char* address, uint16_t, uint32_t) {
      ++entries;
      const EntryView entry = log_.entry(address);
      if (entry.load_at<uint64_t>(0) != table_id) return;  // the first field of both kinds of body
      const uint64_t hash = hash_of(table_id, entry);
      const uint64_t place = enumeration_position(hash);
      if (!tablet->contains(table_id, hash) || place < cursor) return;
      if (place == first && !limits.after_key.empty() && key_of(entry) <= limits.after_key) {
        return;  // it was in a page before
      }
      candidates.push_back({place, address});
    });
    // A heap: of very many objects with one hash only those of this page are put in order.
    const auto comes_later = [this](const Candidate& a, const Candidate& b) {
      if (a.place != b.place) return a.place > b.place;
      return key_of(log_.entry(a.address)) > key_of(log_.entry(b.address));
    };
    std::ranges::make_heap(candidates, comes_later);
    while (!candidates.empty()) {
      std::ranges::pop_heap(candidates, comes_later);
      const Candidate candidate = candidates.back();
      candidates.pop_back();
      const EntryView entry = log_.entry(candidate.address);
      // An object that is left out because its delete is fresh depends on that delete, too.
      result.depends_on = std::max(result.depends_on, dependency(candidate.address));
      const auto object = log::parse_object(entry);
      if (!object) {
        RC_SOMETIMES("store.enumeration_meets_a_fresh_delete");
        continue;
      }
      const Page::Added added = page.add(candidate.place, *object);
      if (added == Page::Added::kYes) continue;
      result.within_hash = added == Page::Added::kRunTooLong;
      if (result.within_hash && !limits.splits_hashes) return StatusCode::kInternal;
      result.next_cursor = page.next_place();
      return StatusCode::kOk;
    }
    cursor = (cursor & ~(step - 1)) + step;
    if (cursor == 0) break;  // after the last bucket
  }
  result.done = true;
  result.next_cursor = 0;
  return StatusCode::kOk;
}

}  // namespace ramcloud::store
