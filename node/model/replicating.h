// A replicator with one replica that is checked at every step. It is run by a separate actor.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/model_schedule.h"
#include "log/group_reader.h"
#include "log/log.h"

namespace ramcloud::log {

class CheckingReplicator final : public Replicator {
 public:
  void segment_opened(Segment& segment) override {
    SpinGuard guard(lock_);
    opened_.push_back(&segment);
  }
  void segment_closed(Segment&) override {}
  void sync_wanted(LogPosition position) override {
    SpinGuard guard(lock_);
    sync_wanted_ = std::max(sync_wanted_, position);
  }
  /// Forgets a segment once neither the log nor this replicator uses it.
  void segment_removed(Segment& segment) override {
    SpinGuard guard(lock_);
    std::erase(opened_, &segment);
    segment.mark_released();
  }

  void segment_compacted(Segment& before, Segment& after) override {
    SpinGuard guard(lock_);
    std::ranges::replace(opened_, &before, &after);
    before.mark_released();
  }

  /// Takes all published bytes and reports them durable; they must be whole groups. It reports
  /// progress only if there is some, like the real one, because the log must not rely on further
  /// calls.
  void step(Log& log) {
    std::vector<Segment*> segments;
    LogPosition sync_wanted;
    {
      SpinGuard guard(lock_);
      segments = opened_;
      sync_wanted = sync_wanted_;
    }
    if (log.synced() < sync_wanted) log.set_synced(sync_wanted);
    bool earlier_are_closed = true;
    bool changed = false;
    for (Segment* segment : segments) {
      if (segment->closed_durable()) continue;
      // Read in this order: once closed is seen, published() is the final length.
      const bool closed = segment->closed();
      take(*segment);
      if (!segment->opened_durable()) {
        segment->mark_opened_durable();
        changed = true;
      }
      if (segment->side() || segment->abandoned()) {
        if (!closed || !segment->opened_durable()) continue;
        segment->mark_closed_durable();
        changed = true;
        continue;
      }
      if (!earlier_are_closed) continue;
      log.set_durable(segment->position(held(segment->id())));
      earlier_are_closed = closed;
      if (closed) {
        segment->mark_closed_durable();
        changed = true;
      }
    }
    if (changed) log.on_replication_progress();
  }
  /// Bytes of a segment that the replica has.
  uint32_t held(uint64_t segment) const {
    const auto found = held_.find(segment);
    return found == held_.end() ? 0 : found->second;
  }
  bool holds(LogPosition end) const { return held(end.segment_id()) >= end.offset(); }
  const std::string& wrong() const { return wrong_; }

 private:
  void take(const Segment& segment) {
    const SegmentBytes bytes = segment.bytes();
    const SegmentScan scan = scan_segment(segment.identity(), bytes);
    const bool whole = scan.end == ScanEnd::kOpen || scan.end == ScanEnd::kClosed;
    if (!whole || scan.valid_bytes != bytes.size()) {
      wrong_ = "published are " + std::to_string(bytes.size()) + " bytes, whole are " +
               std::to_string(scan.valid_bytes) + ": " + scan.what;
    }
    uint32_t& held = held_[segment.id()];
    if (bytes.size() < held) wrong_ = "published() went back";
    held = bytes.size();
  }
  SpinLock lock_;
  std::vector<Segment*> opened_ RC_GUARDED_BY(lock_);
  LogPosition sync_wanted_ RC_GUARDED_BY(lock_);
  std::map<uint64_t, uint32_t> held_;  // written by its actor; read by others between their steps
  std::string wrong_;
};

}  // namespace ramcloud::log
