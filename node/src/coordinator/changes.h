// Tells those who watch the cluster what has changed. All on the coordinator's reactor.
#pragma once

#include <string>
#include <vector>

#include "runtime/reactor.h"

namespace ramcloud {

class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  virtual void on_server_changed(uint64_t revision, uint64_t server_id) = 0;
  virtual void on_table_changed(uint64_t revision, uint64_t table_id) = 0;
  virtual void on_table_dropped(uint64_t revision, const std::string& name) = 0;
  /// Something that the cluster's sums and health are made of has changed; told once for many
  /// changes that come close together.
  virtual void on_status_changed(uint64_t revision) = 0;
};

class Changes {
 public:
  explicit Changes(Reactor& reactor) : status_timer_(reactor, [this] { tell_status(); }) {}

  /// Revisions of different terms do not meet, so they rise over restarts too.
  void begin_term(uint64_t term) { revision_ = term << 32; }
  uint64_t revision() const { return revision_; }
  void add(ChangeListener* listener) { listeners_.push_back(listener); }
  void remove(ChangeListener* listener) { std::erase(listeners_, listener); }

  void server_changed(uint64_t id) {
    ++revision_;
    for (auto* listener : listeners_) listener->on_server_changed(revision_, id);
    status_changed();
  }
  void table_changed(uint64_t id) {
    ++revision_;
    for (auto* listener : listeners_) listener->on_table_changed(revision_, id);
    status_changed();
  }
  void table_dropped(const std::string& name) {
    ++revision_;
    for (auto* listener : listeners_) listener->on_table_dropped(revision_, name);
    status_changed();
  }
  void status_changed() {
    if (!status_timer_.running()) status_timer_.start_after(kStatusDelay);
  }

 private:
  /// Gathers the statistics of one round of probes into one event.
  static constexpr Duration kStatusDelay = 20ms;
  void tell_status() {
    ++revision_;
    for (auto* listener : listeners_) listener->on_status_changed(revision_);
  }
  uint64_t revision_ = 0;
  std::vector<ChangeListener*> listeners_;
  Timer status_timer_;
};

}  // namespace ramcloud
