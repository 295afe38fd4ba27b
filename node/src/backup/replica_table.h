// The replicas of a backup, to which several reactors of a server write. All replicas of a master
// are in one shard with one lock. So an append with its checks, and whatever forbids appends (a
// higher epoch, a server list that condemns the master, freeing the frame), come one after the
// other, on any reactors (docs/design/replication.md#reactors-of-a-backup).
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

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
  uint32_t bytes_held = 0;  // bytes from offset 0
  bool primary = false;
  bool incomplete = false;  // a copy that is not visible yet
  bool closed = false;
  bool length_written = false;  // the metadata has the closed length
  // Numbers of metadata changes on which the master relies: of the last change, and of the last one
  // that is on the device. While they differ nothing is acknowledged, not even a repeated request.
  uint64_t metadata_change = 0;
  uint64_t metadata_durable = 0;
  wire::Holders holders;
};

class ReplicaTable {
 public:
  /// The interface for writing bytes of replicas. Called on any reactor under the lock of the
  /// replica's shard, so never concurrently for one frame.
  class Bytes {
   public:
    virtual ~Bytes() = default;
    virtual Status append(uint32_t frame, uint32_t offset, ByteView bytes) = 0;
  };
  struct KeyHash {
    size_t operator()(const ReplicaKey& key) const;
  };
  using Replicas = std::unordered_map<ReplicaKey, Replica, KeyHash>;
  /// More shards than masters that write here at the same time.
  static constexpr size_t kShards = 64;

  /// Only the first reactor adds, removes and changes replicas; other reactors only call
  /// append_plain(). A lock is held for the time of one append.
  struct alignas(kCacheLineBytes) Shard {
    mutable Mutex lock;
    Replicas replicas RC_GUARDED_BY(lock);
    std::vector<uint64_t> live RC_GUARDED_BY(lock);    // masters that may write, by rising id
    std::vector<uint64_t> frozen RC_GUARDED_BY(lock);  // masters being recovered, by rising id
    bool stopped RC_GUARDED_BY(lock) = false;
  };

  /// `bytes` outlives this. Reserves room for `replicas`.
  ReplicaTable(Bytes& bytes, size_t replicas);

  Shard& shard_of(uint64_t master_id);
  const Shard& shard_of(uint64_t master_id) const;
  std::array<Shard, kShards>& shards() { return shards_; }

  /// When a write that was not taken now may be sent again.
  static constexpr uint32_t kRetryAfterUs = 10'000;
  enum class Plain : uint8_t {
    kTaken,   // all bytes are held
    kNotNow,  // no buffer is free at the moment: `why` is RETRY
    kFailed,  // the device failed: `why`
    kOther,   // not a plain write, or not allowed: the first reactor must handle it
  };
  /// The outcome of append_plain().
  struct PlainWrite {
    Plain outcome = Plain::kOther;
    uint32_t bytes_held = 0;  // bytes of the replica, if they were taken
    Status why = {};
  };
  /// Appends a plain write: one that changes only the bytes held. It has the replica's epoch, its
  /// master is live, and the replica's metadata is on the device. Any reactor. `bytes` are all that
  /// `write` announces.
  PlainWrite append_plain(const wire::ReplicaWriteRequest& write, ByteView bytes);
  /// Appends bytes. Bytes that the replica has already are skipped, so a repeated message is
  /// harmless. True: some were new. Under the lock of its shard.
  Result<bool> append(Replica& replica, uint32_t offset, ByteView bytes);

  /// Sets the masters that may write, by rising id. When it returns, no reactor takes a write of
  /// another master, and none is in progress.
  void set_live(const std::vector<uint64_t>& masters);
  /// When it returns, no reactor takes a write of this master, whatever lists say, and none is in
  /// progress.
  void freeze(uint64_t master_id);
  bool frozen(uint64_t master_id) const;
  /// When it returns, append_plain() takes nothing any more.
  void stop();

 private:
  size_t index_of(uint64_t master_id) const;
  Bytes& bytes_;
  std::array<Shard, kShards> shards_;
};

}  // namespace ramcloud
