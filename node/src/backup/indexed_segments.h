// Segments of dead masters in memory: read from frames, verified, and with the key hashes of their
// entries. This is done once for all recovery masters that fetch from a segment
// (docs/design/recovery.md#fetching). The last few are kept for a while.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "backup/frame_bytes.h"
#include "base/status.h"
#include "log/group_reader.h"
#include "runtime/reactor.h"

namespace ramcloud {

/// An object or a tombstone.
struct IndexedEntry {
  uint8_t first_byte() const { return static_cast<uint8_t>(hash >> 56); }
  uint64_t table_id = 0;
  uint64_t hash = 0;       // of its key
  uint32_t offset = 0;     // of its header, in the segment
  uint32_t group_end = 0;  // of its group
};

struct IndexedSegment {
  /// Complete groups and paddings, in consecutive pieces.
  struct Piece {
    uint32_t begin = 0;
    uint32_t end = 0;
    std::vector<IndexedEntry> entries;  // by rising offset
  };
  /// Where an entry is in `pieces`.
  struct Place {
    uint16_t piece = 0;
    uint16_t entry = 0;
  };
  static constexpr size_t kFirstBytes = 256;

  explicit IndexedSegment(uint32_t size) : bytes(size) {}
  uint32_t whole_bytes() const { return pieces.empty() ? 0 : pieces.back().end; }
  /// True if a group or a padding begins at the offset, or the last one ends there. Requires offset
  /// <= whole_bytes().
  bool is_boundary(uint32_t offset) const;

  FrameBytes bytes;
  std::vector<Piece> pieces;
  /// All entries by the first (highest) byte of their hash, so that small ranges are found without
  /// looking at every entry. Those with byte b: from begin_of[b] to begin_of[b + 1].
  std::vector<Place> by_hash;
  std::array<uint32_t, kFirstBytes + 1> begin_of = {};
  std::string what;  // the damage after whole_bytes(), if there is some
};

class IndexedSegments {
 public:
  struct Key {
    uint64_t master_id = 0;
    uint64_t segment_id = 0;
    uint32_t frame = 0;
    uint32_t end = 0;  // end of the segment, as the coordinator decided
    bool operator==(const Key&) const = default;
  };
  using Segment = std::shared_ptr<const IndexedSegment>;

  /// The limit for bytes and entries together, including segments that are being read or used, on a
  /// server whose log has so many bytes. A dead server's log may be as large as this one's, and the
  /// more segments of it are in memory, the more of them one fetch can be for.
  static constexpr uint64_t room_for(uint64_t log_bytes) {
    return std::clamp(log_bytes / 1024, kLeastRoom, kMostRoom);
  }
  static constexpr uint64_t kLeastRoom = 32u << 20;
  static constexpr uint64_t kMostRoom = 512u << 20;
  /// How long an unused segment is kept.
  static constexpr Duration kKeptFor = std::chrono::seconds(5);

  IndexedSegments(Reactor& reactor, FrameStore& frames, uint64_t room);
  IndexedSegments(const IndexedSegments&) = delete;
  IndexedSegments& operator=(const IndexedSegments&) = delete;

  /// RETRY: segments in use take all room. IO_ERROR. A damaged segment is not an error here.
  Task<Result<Segment>> get(Key key);
  /// The segment, if it is in memory; null otherwise. Its use does not count.
  Segment in_memory(const Key& key) const;
  /// Entries of the segment were used.
  void note_used(const Key& key) { (void)touch(key, Use::kRead); }
  /// Begins to read segments that nobody waits for, one after the other, those that are not there.
  /// Such segments take at most a quarter of the room.
  Task<void> read_ahead(std::vector<Key> keys);
  /// Forgets a segment: the next get() reads it from the device again.
  void forget(const Key& key);

  uint64_t bytes() const { return bytes_; }
  size_t segments() const { return kept_.size(); }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct Kept {
    Kept(Reactor& reactor, const Key& k) : key(k), there(reactor) {}
    Key key;
    Event there;
    Status status;
    std::shared_ptr<IndexedSegment> segment;
    uint64_t charged = 0;
    Time used{};
    bool reading = true;
    bool forgotten = false;
    bool ahead = false;  // nobody has asked for it
  };
  using KeptList = std::list<std::shared_ptr<Kept>>;
  enum class Use : uint8_t { kNamed, kRead };
  KeptList::const_iterator find(const Key& key) const;
  std::shared_ptr<Kept> touch(const Key& key, Use use);
  bool begin_ahead(const Key& key);
  std::shared_ptr<Kept> use(const Key& key);
  std::shared_ptr<Kept> begin(const Key& key, uint64_t most);
  uint64_t ahead_bytes() const;
  bool make_room(uint64_t bytes);
  static bool in_use(const std::shared_ptr<Kept>& kept);
  void drop(KeptList::iterator it);
  void drop_unused();
  Task<void> load(std::shared_ptr<Kept> kept);
  Task<void> index(Key key, std::shared_ptr<IndexedSegment> segment);
  Task<void> order_by_hash(std::shared_ptr<IndexedSegment> segment);

  Reactor& reactor_;
  FrameStore& frames_;
  const uint64_t room_;
  KeptList kept_;  // most recently used first
  uint64_t bytes_ = 0;
  uint64_t bytes_read_ = 0;
  Timer timer_;
  TaskScope scope_;
};

}  // namespace ramcloud
