// Tells those who watch the cluster what has changed. All on the coordinator's reactor.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
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

  /// Begins where the metadata is after this many transactions. A new term is one more, so that
  /// revisions rise over restarts too: those of one term do not come near 2^32. (Terms themselves
  /// can be any numbers, such as those of a store that others write to.) UNSUPPORTED when they
  /// would wrap round.
  Status begin_term(uint64_t transactions) {
    if (transactions > kMaxTransactions) {
      return {StatusCode::kUnsupported,
              fmt::format("the metadata has had {} transactions; accepted are at most {}, or the "
                          "revisions of the admin API would begin again at 0",
                          transactions, kMaxTransactions)};
    }
    revision_ = transactions << 32;
    return {};
  }
  static constexpr uint64_t kMaxTransactions = ~uint32_t{0};
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
