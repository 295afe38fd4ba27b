// Cleaning as a loop of bounded steps: when to clean (Balancer), which segments (CleaningOrder),
// and the passes that do it. server/cleaning.h runs it, on threads beside the reactors or in turns
// of the first reactor. It knows nothing of objects: the store provides the functions that judge
// segments and make passes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "log/balancer.h"
#include "log/cleaning_order.h"
#include "log/log.h"

namespace ramcloud::log {

/// How closely a segment is judged.
enum class Look : uint8_t {
  kQuick,  // by what is known of it
  kExact,  // reads it again if the figures are an estimate that newer facts would change
};

/// One pass of cleaning, from the choice of its victims until they left the log. Created, run and
/// destroyed by one thread.
class CleaningWork {
 public:
  enum class Progress : uint8_t {
    kMore,    // call step() again
    kWaits,   // for replicas, or for the head that commits it
    kDone,    // the victims left the log, or the victim takes less memory
    kFailed,  // out of memory: nothing has changed, the victims stay
    kNoGain,  // nothing would be freed; nothing has changed
  };
  struct Result {
    uint64_t bytes_read = 0;     // entries of the victims
    uint64_t bytes_written = 0;  // survivors, or what stays of a segment that is compacted
    uint64_t seglets = 0;        // of the survivors
  };
  virtual ~CleaningWork() = default;
  /// A slice of work, bounded like every slice of a turn.
  virtual Progress step() = 0;
  /// The pass must not wait for the next regular head: it is committed with a head of its own. May
  /// be called before the pass waits.
  virtual void commit_now() = 0;
  virtual Result result() const = 0;
};

struct CleanerOptions {
  CleaningPolicy policy = CleaningPolicy::kCostBenefit;
  BalancerOptions balancer;
  uint32_t victims = 8;  // a combined pass takes victims with the memory, or disk space, of so many
                         // whole segments
  uint32_t waiting = 4;  // a worker has at most so many passes that wait for replicas or a head
};

struct CleanerState {
  CleanerMode mode = CleanerMode::kIdle;
  std::string why;
  uint64_t combined_runs = 0, compaction_runs = 0, failed_runs = 0;
  uint64_t bytes_read = 0;       // by passes that are done
  uint64_t bytes_written = 0;    // by combined passes, in memory and on disk
  uint64_t bytes_compacted = 0;  // written by compaction, in memory alone
  /// Bytes written to disk by writers and passes, for each byte by writers [Rumble14 §8]: 1 is the
  /// best.
  double write_cost = 1;
};

class Cleaner {
 public:
  /// The figures of a closed segment; none: it must not be cleaned now.
  using Judge = std::function<std::optional<CleaningFigures>(const Segment&, Look)>;
  using MakeWork =
      std::function<std::unique_ptr<CleaningWork>(CleaningKind, std::vector<Segment*> victims)>;

  /// `log` and `clock` outlive it. Both functions may be called by any worker's thread.
  Cleaner(Log& log, Clock& clock, CleanerOptions options, Judge judge, MakeWork make);
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  /// A worker of the cleaner. It belongs to one thread, which participates in the epochs of the
  /// log's readers.
  class Worker {
   public:
    explicit Worker(Cleaner& cleaner) : cleaner_(cleaner) {}
    /// A slice of work. False: there is nothing to do until the log makes progress, or memory is
    /// used; sleep until then.
    bool step();
    /// The number of passes that are not over.
    size_t passes() const { return passes_.size(); }

   private:
    friend class Cleaner;
    struct Pass {
      std::unique_ptr<CleaningWork> work;
      CleaningKind kind = CleaningKind::kNone;
      std::vector<uint32_t> victims;
      uint64_t live_bytes = 0;        // of all victims
      uint32_t first_live_bytes = 0;  // of the first victim, when it was last looked at
      uint64_t victim_seglets = 0;    // that they have
      uint64_t gain_seglets = 0;      // what the pass should free
      uint64_t survivor_seglets = 0;  // what its survivors may take until then
      uint32_t free_seglets = 0;      // when it began
      bool committed = false;
    };
    bool may_begin_more() const;
    bool step_one(Pass& pass);
    Cleaner& cleaner_;
    std::vector<std::unique_ptr<Pass>> passes_;
  };

  /// Any thread.
  CleanerState state() const;

 private:
  struct Looked {
    size_t changed = 0;  // segments
    bool more = false;   // more have changed
  };
  Looked look_again() RC_REQUIRES(mutex_);
  void look_in_turn(uint32_t most, Look look) RC_REQUIRES(mutex_);
  void look_at(uint32_t number, Look look = Look::kQuick) RC_REQUIRES(mutex_);
  void take_off(uint32_t number) RC_REQUIRES(mutex_);
  void set_seglets(const Segment& segment, const CleaningFigures& figures) RC_REQUIRES(mutex_);
  std::optional<CleaningFigures> for_compaction(const Segment& segment,
                                                const CleaningFigures& figures) const
      RC_REQUIRES(mutex_);
  BalancerFigures figures(const Log::Memory& memory) const RC_REQUIRES(mutex_);
  /// The result of begin().
  struct Begun {
    std::unique_ptr<Worker::Pass> pass;
    bool urgent = false;       // waiting passes should be committed
    bool looks_again = false;  // more segments must be looked at
  };
  /// Which passes may begin: any, or those that make no survivors.
  enum class MayBegin : uint8_t { kAny, kWithoutCopies };
  Begun begin(MayBegin may);
  uint64_t room_for_copies(const Log::Memory& memory) const RC_REQUIRES(mutex_);
  bool memory_is_short(const Log::Memory& memory) const RC_REQUIRES(mutex_);
  bool disk_must_wait(const Log::Memory& memory) const RC_REQUIRES(mutex_);
  bool failed_with(const Log::Memory& memory) const RC_REQUIRES(mutex_);
  std::unique_ptr<Worker::Pass> choose(const Log::Memory& memory, const CleaningDecision& decision)
      RC_REQUIRES(mutex_);
  std::unique_ptr<Worker::Pass> choose_combined(CleaningOrder& order, uint64_t room)
      RC_REQUIRES(mutex_);
  std::unique_ptr<Worker::Pass> choose_empty() RC_REQUIRES(mutex_);
  std::unique_ptr<Worker::Pass> combined_pass(const std::vector<CleaningOrder::Chosen>& chosen,
                                              uint64_t room) RC_REQUIRES(mutex_);
  std::unique_ptr<Worker::Pass> choose_compaction(const Log::Memory& memory) RC_REQUIRES(mutex_);
  struct Fitting {
    CleaningFigures figures;
    Segment* segment = nullptr;
  };
  std::optional<Fitting> best_that_fits(uint64_t room) RC_REQUIRES(mutex_);
  bool may_be_victim(const Segment* segment) const;
  CleaningTime now() const;
  void note_no_gain(uint32_t number) RC_REQUIRES(mutex_);
  void note_failure(const Worker::Pass& pass) RC_REQUIRES(mutex_);
  void end(const Worker::Pass& pass, CleaningWork::Progress how);

  Log& log_;
  Clock& clock_;
  const CleanerOptions options_;
  const Judge judge_;
  const MakeWork make_;

  /// What the cleaner knows of one segment.
  struct Part {
    uint32_t live_bytes = 0;
    uint32_t gain_bytes = 0;  // of memory, by combined cleaning
    uint32_t tombstone_bytes = 0;
    /// Compaction with this many live bytes freed nothing: not tried again until there are fewer.
    uint32_t no_gain_live_bytes = ~uint32_t{0};
    uint64_t no_gain_id = 0;
    /// A pass with this segment alone found no memory: not tried again with as many live bytes as when
    /// it began and as little free memory.
    uint64_t failed_id = 0;
    uint32_t failed_live_bytes = 0;
    uint32_t failed_free_seglets = 0;
  };
  void look_at_put_off(const Log::Memory& memory) RC_REQUIRES(mutex_);
  void note_disk(const Log::Memory& memory) RC_REQUIRES(mutex_);
  bool fails_again(const Segment& segment, const CleaningFigures& figures) const
      RC_REQUIRES(mutex_);
  void note_live(Part& part, uint32_t live_bytes) RC_REQUIRES(mutex_);
  void count(Part& part, uint32_t gain_bytes, uint32_t tombstone_bytes) RC_REQUIRES(mutex_);
  bool compacts() const { return options_.balancer.compaction; }

  mutable Mutex mutex_;
  CleaningOrder order_ RC_GUARDED_BY(mutex_);       // for combined cleaning
  CleaningOrder compaction_ RC_GUARDED_BY(mutex_);  // for compaction; in one-level cleaning empty
  CleaningOrder by_seglets_ RC_GUARDED_BY(mutex_);  // all that win a seglet; the last resort
  std::vector<Part> parts_ RC_GUARDED_BY(mutex_);   // by number
  uint64_t memory_gain_bytes_ RC_GUARDED_BY(mutex_) = 0;  // of all parts
  uint64_t tombstone_bytes_ RC_GUARDED_BY(mutex_) = 0;    // of all parts
  std::set<uint32_t> empty_ RC_GUARDED_BY(mutex_);        // without live entries; in order_, too
  std::set<uint32_t> in_progress_ RC_GUARDED_BY(mutex_);  // victims of passes
  std::set<uint32_t> put_off_ RC_GUARDED_BY(mutex_);      // a pass with each alone found no memory
  /// Segments are chosen by what they take on disk, however small they are in memory.
  bool counts_disk_ RC_GUARDED_BY(mutex_);
  uint32_t look_next_ RC_GUARDED_BY(mutex_) = 0;
  /// When a segment leaves the log, tombstones in any other segment may die. So many segments were
  /// not looked at since.
  uint32_t unlooked_ RC_GUARDED_BY(mutex_) = 0;
  uint64_t segments_gone_ RC_GUARDED_BY(mutex_) = 0;     // Log::segments_gone() when that began
  uint64_t gain_seglets_ RC_GUARDED_BY(mutex_) = 0;      // of all passes
  uint64_t survivor_seglets_ RC_GUARDED_BY(mutex_) = 0;  // of all passes
  uint32_t combined_passes_ RC_GUARDED_BY(mutex_) = 0;   // in progress
  /// No pass begins with as little free memory as the last one failed with, until a segment changes
  /// or less of one is live.
  static constexpr uint32_t kNoFailure = ~uint32_t{0};
  /// Of the victims of one pass together: after a failure less, until passes succeed again.
  static constexpr uint64_t kNoLimit = ~uint64_t{0};
  uint64_t most_live_bytes_ RC_GUARDED_BY(mutex_) = kNoLimit;
  uint32_t free_at_failure_ RC_GUARDED_BY(mutex_) = kNoFailure;
  /// A combined pass should have freed so many seglets, and freed none: entries do not always fill
  /// survivors as they filled the victims. A pass that should free no more is not begun, until one
  /// frees some. Otherwise such passes would follow each other for ever.
  uint64_t freed_none_ RC_GUARDED_BY(mutex_) = 0;
  CleanerState state_ RC_GUARDED_BY(mutex_);
};

}  // namespace ramcloud::log
