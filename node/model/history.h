// Checks linearizability: whether the answers of concurrent operations on one key can be explained
// by a sequential order, in which each takes effect between its beginning and its end. Tries all
// orders, because histories of an interleaving are short.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/model_schedule.h"

namespace ramcloud::model {

/// A key holds a number; 0 is absent.
struct Event {
  enum class Kind : uint8_t {
    kRead,    // found `value`
    kWrite,   // put `value`; must be above all numbers the key had before
    kRemove,  // removed `value`; 0: there was none
  };
  Kind kind = Kind::kRead;
  uint64_t value = 0;
  uint64_t from = 0, to = 0;  // model::now() before and after
};

class History {
 public:
  /// Runs op(event), which sets kind and value, and records it with its times.
  template <typename Op>
  void note(Op&& op) {
    Event event;
    event.from = now();
    op(event);
    event.to = now();
    events_.push_back(event);
  }
  void add(const Event& event) { events_.push_back(event); }
  bool linearizable() const {
    std::vector<bool> done(events_.size());
    return explain(done, events_.size(), 0, 0);
  }

 private:
  bool explain(std::vector<bool>& done, size_t left, uint64_t present, uint64_t highest) const {
    if (left == 0) return true;
    uint64_t first_end = ~uint64_t{0};
    for (size_t i = 0; i < events_.size(); ++i) {
      if (!done[i]) first_end = std::min(first_end, events_[i].to);
    }
    for (size_t i = 0; i < events_.size(); ++i) {
      const Event& e = events_[i];
      if (done[i] || e.from > first_end) continue;
      uint64_t next = present;
      if (e.kind == Event::Kind::kWrite) {
        if (e.value <= highest) continue;
        next = e.value;
      } else if (e.value != present) {
        continue;
      } else if (e.kind == Event::Kind::kRemove) {
        next = 0;
      }
      done[i] = true;
      if (explain(done, left - 1, next, std::max(highest, next))) return true;
      done[i] = false;
    }
    return false;
  }
  std::vector<Event> events_;
};

}  // namespace ramcloud::model
