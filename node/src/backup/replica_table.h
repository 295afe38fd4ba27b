// The replicas that a backup has, which several reactors of a server write to. Every master's are
// in one shard, behind one lock: so an append, the checks before it, and whatever would forbid it
// (a higher epoch, a server list that condemns the master, freeing the frame) come one after the
// other, whichever reactors they are on (docs/design/replication.md, "Reactors of a backup").
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/atomic.h"
#include "base/bytes.h"
#include "base/mutex.h"
#include "base/status.h"
#include "wire/replica_messages.h"

namespace ramcloud {

struct ReplicaKey {
  uint64_t master_id = 0;
  uint64_t segment_id = 0;
  bool operator==(const ReplicaKey&) const = default;
};

struct Replica {
  ReplicaKey key;
  uint32_t frame = 0;
  uint32_t epoch = 0;
  uint32_t capacity = 0;
  uint32_t held = 0;  // bytes from offset 0
  bool primary = false;
  bool incomplete = false;  // a re-creation
  bool closed = false;
  bool length_written = false;  // the metadata tells the closed length
  // Changes of the metadata that masters build on, by number: the last one, and the last that is
  // known to be on the device. Until they are equal nothing is acknowledged, not even a repeated
  // request.
  uint64_t promised = 0;
  uint64_t kept = 0;
  wire::Holders holders;
};

class ReplicaTable {
 public:
  /// Where the bytes of replicas go. On any reactor, under the lock of the replica's shard: not
  /// from two at a time to one frame.
  class Bytes {
   public:
    virtual ~Bytes() = default;
    virtual Status append(uint32_t frame, uint32_t offset, ByteView bytes) = 0;
  };
  struct KeyHash {
    size_t operator()(const ReplicaKey& key) const;
  };
  using Replicas = std::unordered_map<ReplicaKey, Replica, KeyHash>;
  /// More than there are masters that write here at the same time from different reactors.
  static constexpr size_t kShards = 64;

  /// The first reactor alone adds, removes and changes replicas; of the others' doing is only what
  /// append_plain() does. A lock is held for as long as one append takes.
  struct alignas(kCacheLineBytes) Shard {
    mutable Mutex lock;
    Replicas replicas RC_GUARDED_BY(lock);
    std::vector<uint64_t> live RC_GUARDED_BY(lock);    // masters that may write, by rising id
    std::vector<uint64_t> frozen RC_GUARDED_BY(lock);  // masters that are recovered, by rising id
    bool stopped RC_GUARDED_BY(lock) = false;
  };

  /// `bytes` outlives this; room for `replicas`.
  ReplicaTable(Bytes& bytes, size_t replicas);

  Shard& shard_of(uint64_t master_id);
  const Shard& shard_of(uint64_t master_id) const;
  std::array<Shard, kShards>& shards() { return shards_; }

  enum class Plain : uint8_t {
    kTaken,   // all of it is held
    kNotNow,  // the bytes have no place at the moment: `why` is RETRY
    kFailed,  // the device did not take them: `why`
    kOther,   // not a plain one, or not allowed: the first reactor handles it
  };
  /// The outcome of append_plain().
  struct PlainWrite {
    Plain outcome = Plain::kOther;
    uint32_t held = 0;  // bytes of the replica, if they were taken
    Status why = {};
  };
  /// A write that changes nothing but the bytes held: of the replica's epoch, by a master that is
  /// live, to a replica whose metadata is on the device. Any reactor. `bytes` are all that `write`
  /// announces.
  PlainWrite append_plain(const wire::ReplicaWriteRequest& write, ByteView bytes);
  /// Appends bytes; those that the replica has already are skipped, so resending is harmless. True:
  /// some were new. Under the lock of its shard.
  Result<bool> append(Replica& replica, uint32_t offset, ByteView bytes);

  /// From when it returns no write of another master is taken, on whichever reactor; none is half
  /// done. By rising id.
  void set_live(const std::vector<uint64_t>& masters);
  /// From when it returns no write of this master is taken, on whichever reactor, whatever lists
  /// say; none is half done.
  void freeze(uint64_t master_id);
  bool frozen(uint64_t master_id) const;
  /// From when it returns append_plain() takes nothing.
  void stop();
  /// Soon append_plain() takes nothing: what it takes until then is as good as what it took before.
  void device_failed() { failed_.store(true, std::memory_order_relaxed); }

 private:
  size_t index_of(uint64_t master_id) const;
  Bytes& bytes_;
  std::array<Shard, kShards> shards_;
  Atomic<bool> failed_{false};
};

}  // namespace ramcloud
