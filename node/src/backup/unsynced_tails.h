// Bytes of replicas that are not on the device yet, when acknowledgements wait for the device
// (durability "synced") and frames can be written past the cache. Bytes are kept in aligned
// buffers; a commit writes the blocks of all replicas that got some, as one batch. The last block
// of a replica is seldom full: it is written filled up with zeros, and later again with the bytes
// that came since.
//
// append() may be called on any reactor, one at a time for each frame; everything else runs on the
// first reactor.
//
// Buffers in flight are never touched: a device, or the checksums of a layer above it, must not see
// bytes change. So a replica continues in another buffer, which begins with a copy of the last
// block.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "backup/frame_store.h"
#include "base/spin_lock.h"

namespace ramcloud {

class UnsyncedTails {
 public:
  static constexpr uint32_t kBlock = 4096;
  static constexpr uint32_t kBufferBytes = 64 << 10;
  /// Enough for a few of the largest messages. When all are full, writes are answered RETRY.
  static constexpr uint32_t kBuffers = 256;

  /// True if these frames support direct writes.
  static bool possible(const FrameStore& frames);
  /// `frames` outlives this.
  explicit UnsyncedTails(FrameStore& frames, uint32_t buffers = kBuffers);
  ~UnsyncedTails();
  UnsyncedTails(const UnsyncedTails&) = delete;
  UnsyncedTails& operator=(const UnsyncedTails&) = delete;

  /// Takes the next bytes of a frame, from offset 0 on. RETRY: takes none, because the buffers are
  /// full until the next commit is done. Allocates only for the first bytes of a frame.
  Status append(uint32_t frame, ByteView bytes);
  /// Forgets the frame: bytes that no commit has begun to write are dropped.
  void forget(uint32_t frame);
  /// Calls `done` when everything taken before is on the device: at once, or when a batch that
  /// begins after this call is written. One batch is in flight at a time. After a failed batch all
  /// later ones fail.
  void commit(std::function<void(Status)> done);

  uint32_t buffers_free() const {
    const SpinGuard guard(lock_);
    return static_cast<uint32_t>(free_.size());
  }

 private:
  struct Tail {
    uint32_t frame = 0;
    uint32_t end = 0;                     // bytes taken
    char* buffer = nullptr;               // the buffer being filled
    uint32_t begin = 0;                   // offset of the buffer's first byte in the frame
    bool unwritten = false;               // it is in unwritten_
    std::array<char, kBlock> last_block;  // the bytes up to `end`, if there is no buffer
  };
  /// A sealed buffer of whole blocks.
  struct Full {
    FrameWrite write;
    char* buffer = nullptr;
  };
  using Waiters = std::vector<std::function<void(Status)>>;

  static uint32_t room_in(const Tail& tail);
  void take_buffer(Tail& tail) RC_REQUIRES(lock_);
  void seal(Tail& tail) RC_REQUIRES(lock_);
  bool seal_all();
  void begin_batches();
  bool write_batch();
  void finish(const Status& status);

  FrameStore& frames_;
  std::shared_ptr<char> memory_;  // memory of all buffers
  mutable SpinLock lock_;         // held while bytes are copied into buffers
  std::vector<char*> free_ RC_GUARDED_BY(lock_);
  // By frame; looked up, not iterated.
  std::unordered_map<uint32_t, std::unique_ptr<Tail>> tails_ RC_GUARDED_BY(lock_);
  std::vector<Tail*> unwritten_ RC_GUARDED_BY(lock_);  // tails with a buffer
  std::vector<Full> full_ RC_GUARDED_BY(lock_);        // for the next batch
  std::vector<Full> writing_;                          // the batch in flight
  std::vector<FrameWrite> batch_;
  Waiters waiting_;  // for the next batch
  Waiters serving_;  // the batch in flight
  Status failed_;
  bool under_way_ = false;
  bool beginning_ = false;  // inside begin_batches()
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ramcloud
