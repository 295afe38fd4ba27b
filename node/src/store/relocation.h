// The common part of both kinds of cleaning pass [Rumble14 §4]: find live entries in closed
// segments, copy them, and switch the slots of the hash table to the copies. The kinds differ in
// where the copies are and how they replace the originals: cleaning_pass.h, compaction_pass.h.
// docs/design/log.md#cleaning describes the steps and what a crash at each of them leaves.
//
//   scan    what is live in the victims
//   copy    one group after the other
//   wait    until the copies may be seen
//   switch  slots of the hash table, from the originals to the copies
//   enter   the copies take the place of the victims
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "log/cleaner.h"
#include "log/log.h"
#include "log/segment_writer.h"
#include "store/object_store.h"

namespace ramcloud::store {

/// True if the segment can be a victim now: closed on its replicas, in the log, and not in another
/// pass. Then it stays in the log for the turn.
bool may_clean(ObjectStore& store, const log::Segment& segment);
/// The same, and claims the segment: until CleanedSegments::give_up() or segment_left(), nobody
/// else makes it leave the log. False: it cannot be a victim, or is claimed by another.
bool claim(ObjectStore& store, const log::Segment& segment);

/// Runs on one thread, concurrently with all operations of the store. Each step is within one turn
/// of a participant of the store's epochs. The store outlives it.
class Relocation : public log::CleaningWork {
 public:
  struct Counts {
    uint64_t objects = 0;             // that were copied
    uint64_t tombstones = 0;          // that were copied
    uint64_t tombstones_dropped = 0;  // no longer needed: the objects that they kill have left the
                                      // log
    uint64_t dead_copies = 0;         // objects that died after they were copied
    uint64_t of_no_tablet = 0;        // tombstones of tablets that are not here, or were taken
                                      // after them
  };

  Progress step() final;
  /// Frees the copies; the victims stay. False: slots were switched already, so the pass must be
  /// completed.
  bool abort();
  Result result() const final { return result_; }
  const Counts& counts() const { return counts_; }

  /// Bytes of the copies of one group, unless one entry is larger: such a group does not straddle
  /// seglets.
  static constexpr uint32_t kGroupedBytes = 2 << 10;

 protected:
  enum class Order : uint8_t { kOldestFirst, kAsTheyStand };
  enum class Phase : uint8_t { kScan, kCopy, kWait, kSwitch, kEnter, kDone, kFailed };

  /// An entry of a victim, live when it was looked at.
  struct Survivor {
    const char* from = nullptr;
    const char* to = nullptr;  // address of the copy
    uint64_t hash = 0;         // hash of its key
    uint32_t victim = 0;       // which
    uint32_t offset = 0;       // in the victim
    bool is_object = false;    // else a tombstone
    bool has_slot = false;
  };

  /// Victims that may not be cleaned (any more) are left out; a pass without any is done.
  Relocation(ObjectStore& store, const std::vector<log::Segment*>& victims, Order order);

  /// @name Of each kind of pass
  /// @{ A live entry of so many bytes was found.
  virtual void found(uint32_t length) = 0;
  /// All live entries are found. Any error ends the pass: OUT_OF_MEMORY, or no memory would be
  /// freed.
  virtual StatusCode begin_copies() = 0;
  /// Appends a group of copies. Errors as for begin_copies().
  virtual StatusCode append(std::span<const log::EntrySource> entries, const char* refs[]) = 0;
  /// No more copies follow. `judged`: entries were judged dead because of what was appended until
  /// there.
  virtual void close_copies(log::LogPosition judged) = 0;
  /// True when slots may point at the copies.
  virtual bool may_be_seen(log::LogPosition judged) = 0;
  /// An object died after it was copied.
  virtual void died(const log::Segment& victim, const log::Segment& survivor,
                    const DeadCopy& copy) = 0;
  /// All slots are switched: lets the copies replace the victims.
  virtual void enter() = 0;
  /// True when the copies have replaced the victims.
  virtual bool entered() = 0;
  /// Gives the copies up; nothing refers to them.
  virtual void drop_copies() = 0;
  /// @}

  ObjectStore& store_;
  std::vector<log::Segment*> victims_;
  std::vector<uint64_t> victim_ids_;  // kept here, because the victims' memory may be reused
  Phase phase_ = Phase::kScan;
  Result result_;

 private:
  Progress scan();
  void gather();
  void gather_entry(const log::EntryView& entry, uint32_t offset);
  void add_to_age(uint32_t timestamp_s);
  bool is_live(Survivor& survivor, const log::EntryView& entry);
  bool object_is_live(Survivor& survivor);
  bool tombstone_is_live(Survivor& survivor, const log::EntryView& entry);
  bool protects(const log::TombstoneView& tombstone, uint64_t key_hash, const Tablet& tablet);
  Progress copy();
  void take_oldest();
  void fetch(const Survivor& survivor) const;
  StatusCode copy_group(uint32_t& copied);
  Progress wait();
  Progress switch_slots();
  void switch_slot(const Survivor& survivor);
  Progress finish();
  Progress give_up(StatusCode why);

  const Order order_;
  Counts counts_;

  uint32_t victim_ = 0;  // the victim that is being scanned
  uint32_t at_ = 0;      // offset of its next group
  /// Which tombstones that name a segment must stay: all, only those of its dead copies, or none.
  enum class Needed : uint8_t { kAll, kOfDeadCopies, kNone };
  Needed needed_against(uint64_t segment);
  std::map<uint64_t, Needed> needed_against_;  // segments that tombstones name
  std::vector<Survivor> slice_;                // entries of one step of the scan
  // There may be a million: deques grow and shrink without a long step.
  std::deque<Survivor> survivors_;  // in the order of the scan
  std::map<uint32_t, std::deque<uint32_t>>
      by_age_;  // places of what is to be copied, by time stamp
  std::pair<const uint32_t, std::deque<uint32_t>>* age_ = nullptr;  // that the last was added to
  std::vector<uint32_t> oldest_;  // places of those that are copied next, from next_ on
  size_t next_ = 0;
  log::LogPosition judged_;  // entries were judged dead because of what was appended until here
  uint64_t deletes_ = 0;     // deletes whose pending tombstones may be in victims, as
                             // deletes_so_far() counts
  std::string body_;         // body of an entry in many pieces
};

}  // namespace ramcloud::store
