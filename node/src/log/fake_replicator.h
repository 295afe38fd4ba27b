// The fake Replicator for tests of the log and of the layers above it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "log/log.h"

namespace ramcloud::log {

/// The published bytes of a segment, contiguous, as a replica has them.
inline std::string image_of(const Segment& segment, uint32_t length = kSegmentBytes) {
  const SegmentBytes bytes = segment.bytes();
  std::string image(std::min(length, bytes.size()), '\0');
  bytes.read(0, image.data(), static_cast<uint32_t>(image.size()));
  return image;
}

/// Replicas that exist only as lengths: how far each segment's bytes are durable. A test chooses
/// when they advance:
///   by hand      with finish_…() or step()
///   immediate    within each call of the log
///   start_thread()  on a thread of its own, a little at a time, whatever threads append
/// The interleaving models have their own (node/model/replicating.h), where each step is a switch
/// point.
class FakeReplicator final : public Replicator {
 public:
  explicit FakeReplicator(bool immediate = false) : immediate_(immediate) {}
  ~FakeReplicator() override { join(); }
  FakeReplicator(const FakeReplicator&) = delete;
  FakeReplicator& operator=(const FakeReplicator&) = delete;
  void attach(Log& log) { log_ = &log; }

  /// After attach(), before other threads use the log. The seed decides the steps.
  void start_thread(uint64_t seed) {
    threaded_ = true;
    thread_ = std::thread([this, random = Random(seed)]() mutable {
      while (!stop_.load()) {
        if (!thread_step(random)) std::this_thread::yield();
      }
    });
  }
  /// Precondition: no other thread uses the log any more. Finishes everything.
  void stop_thread() {
    join();
    threaded_ = false;
    (void)take_pending();
    (void)take_sync();
    finish_all();
  }

  void segment_opened(Segment& segment) override { take({Event::kOpen, &segment}); }
  void segment_closed(Segment& segment) override { take({Event::kClose, &segment}); }
  void segment_removed(Segment& segment) override { take({Event::kRemoved, &segment}); }
  /// The replicas keep the bytes that they have.
  void segment_compacted(Segment& before, Segment& after) override {
    take({Event::kCompacted, &before, &after});
  }
  void sync_wanted(LogPosition position) override {
    {
      const std::lock_guard guard(mutex_);
      sync_wanted_ = std::max(sync_wanted_, position);
    }
    if (syncs && !threaded_) finish_sync();
  }
  Status shortage_of(const Segment&) override { return shortage; }
  /// Everything that sync_wanted() asked for is on devices.
  void finish_sync() { log_->set_synced(wanted()); }

  void finish_open(uint64_t id) {
    Replica& replica = find(id);
    advance(replica, replica.segment->header_length());
    replica.segment->mark_opened_durable();
    events.push_back("opened " + std::to_string(id));
    report();
  }
  /// Makes up to max_bytes more of the segment durable, whole groups.
  void finish_data(uint64_t id, uint32_t max_bytes = kSegmentBytes) {
    Replica& replica = find(id);
    advance(replica, replica.segment->chunk_end(replica.durable, max_bytes));
    report();
  }
  void finish_close(uint64_t id) {
    Replica& replica = find(id);
    advance(replica, replica.segment->published());
    replica.segment->mark_closed_durable();
    events.push_back("closed " + std::to_string(id));
    report();
  }
  /// Does everything that can be done, until nothing is left.
  void finish_all() {
    while (step_one(nullptr)) {
    }
  }
  /// Does one random thing of those that can be done; false if there is nothing to do.
  bool step(Random& random) { return step_one(&random); }

  struct Replica {
    Segment* segment;
    uint32_t durable;
    std::string bytes = {};     // with keeps_bytes, as they were when they became durable
    std::string original = {};  // what it had when it was closed, if the segment was compacted
  };
  /// With a thread: after stop_thread().
  const std::vector<Replica>& replicas() const { return replicas_; }
  std::vector<std::string> events;
  Status shortage;           // of every segment that is asked about
  bool syncs = true;         // at once, or on the thread
  bool keeps_bytes = false;  // set it before the log starts
  bool keeps_originals = false;

 private:
  struct Event {
    enum Kind : uint8_t { kOpen, kClose, kRemoved, kCompacted } kind;
    Segment* segment;
    Segment* compacted = nullptr;
  };

  /// By any thread that uses the log. With start_thread(), only that thread handles it.
  void take(Event event) {
    {
      const std::lock_guard guard(mutex_);
      pending_.push_back(event);
    }
    if (threaded_) return;
    take_pending();
    const bool more = event.kind == Event::kOpen || event.kind == Event::kClose;
    if (immediate_ && more) finish_all();
  }
  bool take_pending() {
    std::vector<Event> pending;
    {
      const std::lock_guard guard(mutex_);
      pending.swap(pending_);
    }
    for (const auto& [kind, segment, compacted] : pending) {
      static constexpr const char* kNames[] = {"open ", "close ", "removed ", "compacted "};
      events.push_back(kNames[kind] + std::to_string(segment->id()));
      if (kind == Event::kOpen) add(*segment);
      if (kind == Event::kRemoved) remove(*segment);
      if (kind == Event::kCompacted) replace(*segment, *compacted);
    }
    return !pending.empty();
  }
  void add(Segment& segment) {
    if (!segment.side()) {
      EXPECT_LT(last_head_, segment.id()) << "heads are opened one after the other";
      last_head_ = segment.id();
    }
    replicas_.push_back({&segment, 0});
  }
  void remove(Segment& segment) {
    std::erase_if(replicas_, [&](const Replica& r) { return r.segment == &segment; });
    segment.mark_released();
  }
  void replace(Segment& before, Segment& after) {
    Replica& replica = find(before.id());
    if (keeps_originals && replica.original.empty()) replica.original = image_of(before);
    replica.segment = &after;
    replica.durable = after.published();
    before.mark_released();
  }
  bool take_sync() {
    if (!syncs || log_->synced() >= wanted()) return false;
    finish_sync();
    return true;
  }
  LogPosition wanted() {
    const std::lock_guard guard(mutex_);
    return sync_wanted_;
  }
  bool thread_step(Random& random) {
    const bool took = take_pending();
    const bool synced = take_sync();
    return step_one(&random) || took || synced;
  }
  void join() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  Replica& find(uint64_t id) {
    return *std::find_if(replicas_.begin(), replicas_.end(),
                         [&](const Replica& r) { return r.segment->id() == id; });
  }
  void advance(Replica& replica, uint32_t end) {
    if (end <= replica.durable) return;
    if (keeps_bytes) {
      replica.bytes.resize(end);
      replica.segment->bytes().read(replica.durable, replica.bytes.data() + replica.durable,
                                    end - replica.durable);
    }
    replica.durable = end;
  }
  bool step_one(Random* random) {
    for (size_t i = 0; i < replicas_.size(); ++i) {
      Replica& r = replicas_[i];
      if (r.segment->closed_durable()) continue;
      if (!r.segment->opened_durable()) {
        if (random && random->chance(0.5)) continue;
        finish_open(r.segment->id());
        return true;
      }
      const bool closed = r.segment->closed();  // read before its length
      if (r.durable < r.segment->published()) {
        const auto most = random ? random->below(1 << 20) : kSegmentBytes;
        finish_data(r.segment->id(), static_cast<uint32_t>(most));
        return true;
      }
      if (closed) {
        finish_close(r.segment->id());
        return true;
      }
    }
    return false;
  }
  /// As in ReplicaManager, the durable position is in the first head that is not closed durable.
  void report() {
    if (log_ == nullptr) return;
    for (const Replica& r : replicas_) {
      if (r.segment->side() || r.segment->abandoned()) continue;
      if (!r.segment->opened_durable()) break;
      log_->set_durable(r.segment->position(r.durable));
      if (!r.segment->closed_durable()) break;
    }
    log_->on_replication_progress();
  }

  const bool immediate_;
  Log* log_ = nullptr;
  std::vector<Replica> replicas_;
  uint64_t last_head_ = 0;

  bool threaded_ = false;  // changed only while no other thread uses the log
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<Event> pending_;  // guarded by mutex_: calls of the log, not taken yet
  LogPosition sync_wanted_;     // guarded by mutex_
};

}  // namespace ramcloud::log
