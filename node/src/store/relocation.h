// What passes of cleaning have in common [Rumble14 §4]: they find what is live in some closed segments,
// copy it, and switch the slots of the hash table to the copies. Where the copies stand, and how they
// take the place of the originals, is the pass's own: cleaning_pass.h, compaction_pass.h.
// docs/design/log.md#cleaning has the steps, and what a crash leaves at each of them.
//
//   scan    what is live in the victims
//   copy    one group after the other
//   wait    until the copies may be seen
//   switch  slots of the hash table, from the originals to the copies
//   enter   the copies take the place of the victims
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "log/cleaner.h"
#include "log/log.h"
#include "log/segment_writer.h"
#include "store/object_store.h"

namespace ramcloud::store {

/// It can be a victim now: closed on its replicas, in the log, and not in another pass. It stays in
/// the log for the turn.
bool may_clean(ObjectStore& store, const log::Segment& segment);
/// The same, and from now on nobody else makes it leave the log: until CleanedSegments::give_up(), or
/// left(). False: it cannot be, or another one has it.
bool claim(ObjectStore& store, const log::Segment& segment);

/// Beside all operations of the store, on any one thread; a step is within one turn of a
/// participant of the store's epochs. The store outlives it.
class Relocation : public log::CleaningWork {
 public:
  struct Counts {
    uint64_t objects = 0;             // that were copied
    uint64_t tombstones = 0;          // that were copied
    uint64_t tombstones_dropped = 0;  // what they protect has left the log
    uint64_t dead_copies = 0;         // objects that died after they were copied
    uint64_t of_no_tablet = 0;        // tombstones of tablets that are not here, or came later
  };

  Progress step() final;
  /// Frees the copies; the victims stay. False: slots have been switched, it will be done.
  bool abort();
  Result result() const final { return result_; }
  const Counts& counts() const { return counts_; }

  /// Bytes of the copies of one group, unless one entry is larger: it stays within what does not
  /// straddle seglets.
  static constexpr uint32_t kGroupedBytes = 2 << 10;

 protected:
  enum class Order : uint8_t { kOldestFirst, kAsTheyStand };
  enum class Phase : uint8_t { kScan, kCopy, kWait, kSwitch, kEnter, kDone, kFailed };

  /// An entry of a victim that was live when it was looked at.
  struct Survivor {
    const char* from = nullptr;
    const char* to = nullptr;  // of the copy
    uint64_t hash = 0;         // of its key
    uint32_t timestamp_s = 0;  // 0: copied as they stand
    uint32_t victim = 0;       // which
    uint32_t offset = 0;       // in the victim
    bool has_slot = false;
    /// For a heap whose first is the oldest. What is equally old stays in its order.
    bool operator<(const Survivor& other) const {
      if (timestamp_s != other.timestamp_s) return timestamp_s > other.timestamp_s;
      if (victim != other.victim) return victim > other.victim;
      return offset > other.offset;
    }
  };

  /// Victims that may not be cleaned (any more) are left out; a pass without any is done.
  Relocation(ObjectStore& store, const std::vector<log::Segment*>& victims, Order order);

  /// @name Of each kind of pass
  /// @{
  /// An entry of so many bytes was found live.
  virtual void found(uint32_t length) = 0;
  /// All was found. OUT_OF_MEMORY, or nothing would be won: it fails.
  virtual StatusCode begin_copies() = 0;
  /// Appends a group of copies. OUT_OF_MEMORY, or nothing would be won: it fails.
  virtual StatusCode append(std::span<const log::EntrySource> entries, const char* refs[]) = 0;
  /// No more comes. `judged`: by what was appended until there, entries were taken for dead.
  virtual void close_copies(log::LogPosition judged) = 0;
  /// Slots may point at the copies.
  virtual bool may_be_seen(log::LogPosition judged) = 0;
  /// An object died after it was copied.
  virtual void died(const log::Segment& victim, const log::Segment& survivor) = 0;
  /// All slots are switched: the copies take the victims' place.
  virtual void enter() = 0;
  /// They have.
  virtual bool entered() = 0;
  /// Gives the copies up; nothing refers to them.
  virtual void drop_copies() = 0;
  /// @}

  ObjectStore& store_;
  std::vector<log::Segment*> victims_;
  std::vector<uint64_t> victim_ids_;  // also when their memory is used again
  Phase phase_ = Phase::kScan;

 private:
  Progress scan();
  void scan_entry(const log::EntryView& entry, uint32_t offset);
  bool is_live(Survivor& survivor, const log::EntryView& entry);
  bool object_is_live(Survivor& survivor, const log::EntryView& entry);
  bool tombstone_is_live(Survivor& survivor, const log::EntryView& entry);
  bool protects(const log::TombstoneView& tombstone, const Tablet& tablet);
  Progress copy();
  StatusCode copy_group(uint32_t& copied);
  Progress wait();
  Progress switch_slots();
  void switch_slot(const Survivor& survivor);
  Progress finish();
  Progress give_up(StatusCode why);

  const Order order_;
  Result result_;
  Counts counts_;

  uint32_t victim_ = 0;                    // that is scanned
  uint32_t at_ = 0;                        // offset of its next group
  std::map<uint64_t, bool> may_be_found_;  // segments that tombstones name
  // [0, heap_): a heap of those that are not copied yet; behind it the others.
  std::vector<Survivor> survivors_;
  size_t heap_ = 0;
  size_t switched_ = 0;
  log::LogPosition judged_;  // by what was appended until here, entries were taken for dead
  uint64_t deletes_ = 0;     // pending ones that may be in victims, as ObjectStore counts them
  std::string body_;         // of an entry in many pieces
};

}  // namespace ramcloud::store
