// Tells watchers what has changed in the cluster. Everything runs on the coordinator's reactor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/metadata/records.h"
#include "runtime/reactor.h"

namespace ramcloud {

class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  virtual void on_server_changed(uint64_t revision, uint64_t server_id) = 0;
  virtual void on_table_changed(uint64_t revision, uint64_t table_id) = 0;
  virtual void on_table_dropped(uint64_t revision, const std::string& name) = 0;
  /// The cluster's sums or its health may have changed. Called once for several changes within a
  /// short time.
  virtual void on_status_changed(uint64_t revision) = 0;
};

class Changes {
 public:
  explicit Changes(Reactor& reactor) : status_timer_(reactor, [this] { tell_status(); }) {}

  /// Begins with revision `first`, which no earlier leader has used. Revisions up to `reserved`
  /// belong to this leader; the metadata records that, and the next leader begins there. `on_short`
  /// is called when few are left, and again after each reserve().
  void begin(uint64_t first, uint64_t reserved, std::function<void()> on_short) {
    revision_ = first;
    on_short_ = std::move(on_short);
    reserve(reserved);
  }
  void reserve(uint64_t reserved) {
    reserved_ = reserved;
    short_at_ = reserved - std::min(reserved, kReserve / 2);
  }
  /// Revisions that are reserved at a time.
  static constexpr uint64_t kReserve = kRevisionsReserved;
  uint64_t revision() const { return revision_; }
  void add(ChangeListener* listener) { listeners_.push_back(listener); }
  void remove(ChangeListener* listener) { std::erase(listeners_, listener); }

  void server_changed(uint64_t id) {
    advance();
    for (auto* listener : listeners_) listener->on_server_changed(revision_, id);
    status_changed();
  }
  void table_changed(uint64_t id) {
    advance();
    for (auto* listener : listeners_) listener->on_table_changed(revision_, id);
    status_changed();
  }
  void table_dropped(const std::string& name) {
    advance();
    for (auto* listener : listeners_) listener->on_table_dropped(revision_, name);
    status_changed();
  }
  void status_changed() {
    if (!status_timer_.running()) status_timer_.start_after(kStatusDelay);
  }

 private:
  /// Joins the statistics of one round of probes into one event.
  static constexpr Duration kStatusDelay = 20ms;
  void tell_status() {
    advance();
    for (auto* listener : listeners_) listener->on_status_changed(revision_);
  }
  /// Never exceeds the reserved revisions: if they are used up, changes share the last one until
  /// more are reserved.
  void advance() {
    if (revision_ + 1 < reserved_) ++revision_;
    if (revision_ < short_at_ || !on_short_) return;
    short_at_ = ~uint64_t{0};
    on_short_();
  }
  uint64_t revision_ = 0;
  uint64_t reserved_ = ~uint64_t{0};
  uint64_t short_at_ = ~uint64_t{0};
  std::function<void()> on_short_;
  std::vector<ChangeListener*> listeners_;
  Timer status_timer_;
};

}  // namespace ramcloud
