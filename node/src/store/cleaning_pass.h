// A pass of combined cleaning [Ousterhout15 §4.3]: what is live in some closed segments is copied
// into survivors, sorted by age, and the survivors take the victims' place in the log.
// docs/design/log.md#cleaning has the steps, and what a crash leaves at each of them.
//
//   scan       what is live in the victims
//   copy       into a side log, the oldest first
//   replicate  until every survivor is closed on its replicas
//   switch     slots of the hash table, from the originals to the copies
//   commit     with a head that is opened anyway, or with one of its own
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "log/cleaner.h"
#include "log/log.h"
#include "log/side_log.h"
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
class CleaningPass final : public log::CleaningWork {
 public:
  struct Counts {
    uint64_t objects = 0;             // that were copied
    uint64_t tombstones = 0;          // that were copied
    uint64_t tombstones_dropped = 0;  // what they protect has left the log
    uint64_t dead_copies = 0;         // objects that died after they were copied
    uint64_t of_no_tablet = 0;        // tombstones of tablets that are not here, or came later
  };

  /// Victims that may not be cleaned (any more) are left out; a pass without any is done.
  CleaningPass(ObjectStore& store, const std::vector<log::Segment*>& victims);
  /// Gives up what abort() still can. Later, when slots point at survivors, the pass has to be done,
  /// or the log has to be at rest for ever, as when it ends.
  ~CleaningPass() override;

  Progress step() override;
  void commit_now() override;
  /// Frees the survivors; the victims stay. False: slots have been switched, it will be done.
  bool abort();
  Result result() const override { return result_; }
  const Counts& counts() const { return counts_; }

 private:
  enum class Phase : uint8_t { kScan, kCopy, kReplicate, kSwitch, kCommit, kDone, kFailed };

  /// An entry of a victim that was live when it was looked at.
  struct Survivor {
    const char* from = nullptr;
    const char* to = nullptr;  // of the copy
    uint64_t hash = 0;         // of its key
    uint32_t timestamp_s = 0;
    uint32_t victim = 0;  // which
    uint32_t offset = 0;  // in the victim
    bool has_slot = false;
    /// For a heap whose first is the oldest. What is equally old stays in its order.
    bool operator<(const Survivor& other) const {
      if (timestamp_s != other.timestamp_s) return timestamp_s > other.timestamp_s;
      if (victim != other.victim) return victim > other.victim;
      return offset > other.offset;
    }
  };

  Progress scan();
  void scan_entry(const log::EntryView& entry, uint32_t offset);
  bool is_live(Survivor& survivor, const log::EntryView& entry);
  bool object_is_live(Survivor& survivor, const log::EntryView& entry);
  bool tombstone_is_live(Survivor& survivor, const log::EntryView& entry);
  bool protects(const log::TombstoneView& tombstone, const Tablet& tablet);
  Progress copy();
  bool copy_group(uint32_t& copied);
  Progress replicate();
  Progress switch_slots();
  void switch_slot(const Survivor& survivor);
  Progress commit();
  void end();

  ObjectStore& store_;
  std::vector<log::Segment*> victims_;
  std::vector<uint64_t> victim_ids_;  // also when their memory is used again
  log::SideLog side_;
  log::Change change_;
  Phase phase_ = Phase::kScan;
  bool now_ = false;
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
